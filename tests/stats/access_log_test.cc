#include "evenkeel/stats/access_log.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "evenkeel/base/clock.h"
#include "stats/temporary_directory.h"

namespace evenkeel::testing {
namespace {

using namespace std::chrono_literals;

constexpr std::chrono::milliseconds soon{20'000};  // reached only by a failing test

std::unique_ptr<AccessLog> open_log(const std::string& path, unsigned workers = 1,
                                    AccessLog::Options options = {}) {
  auto log = AccessLog::open(path, workers, options);
  EXPECT_TRUE(log) << log.error().detail;
  return std::move(*log);
}

/// Worker and number, then a filling of 0 to 150 bytes: "2 17 ......\n".
std::string numbered(unsigned worker, unsigned number) {
  return std::to_string(worker) + " " + std::to_string(number) + " " +
         std::string(number * 31 % 151, '.') + "\n";
}

/// How many lines there are; each must be whole, and each worker's numbers must rise.
std::uint64_t count_of_ordered(const std::vector<std::string>& lines) {
  std::map<unsigned, long> last;
  for (const std::string& line : lines) {
    unsigned worker = 0;
    unsigned number = 0;
    if (std::sscanf(line.c_str(), "%u %u ", &worker, &number) != 2 ||
        line + "\n" != numbered(worker, number)) {
      ADD_FAILURE() << "not a line of ours: " << line;
      return 0;
    }
    auto [before, first] = last.try_emplace(worker, -1);
    EXPECT_GT(static_cast<long>(number), before->second);
    before->second = number;
  }
  return lines.size();
}

/// A named pipe and its reading end.
class Pipe {
 public:
  Pipe() {
    mkfifo(path().c_str(), 0600);
    reader_ = ::open(path().c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    fcntl(reader_, F_SETFL, 0);
  }
  ~Pipe() { close(); }

  std::string path() const { return folder_ / "pipe"; }
  void close() {
    if (reader_ >= 0) ::close(std::exchange(reader_, -1));
  }
  std::string read_some(std::size_t at_most = 8192) {
    std::string bytes(at_most, '\0');
    bytes.resize(
        static_cast<std::size_t>(std::max<ssize_t>(::read(reader_, bytes.data(), at_most), 0)));
    return bytes;
  }
  /// Bytes that could be read now.
  std::size_t waiting() const {
    int bytes = 0;
    ioctl(reader_, FIONREAD, &bytes);
    return static_cast<std::size_t>(bytes);
  }
  std::string read_all() {
    std::string all;
    for (std::string some = read_some(); !some.empty(); some = read_some()) all += some;
    return all;
  }

 private:
  TemporaryDirectory folder_;
  int reader_ = -1;
};

/// What /proc says of the writer's system call; empty when it may not be asked.
std::string call_of_writer() {
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    if (contents_of(task.path() / "comm") != "access-log\n") continue;
    return contents_of(task.path() / "syscall");
  }
  return {};
}

bool kernel_shows_writer() { return !contents_of("/proc/self/syscall").empty(); }

enum class Sleep { nap, for_good };

/// Whether the writer came to sleep like that. REQUIRES: kernel_shows_writer().
bool came_to(Sleep sleep) {
  const Instant deadline = Clock::now() + soon;
  do {
    unsigned long number = 0;
    unsigned long timeout = 0;
    const int read =
        std::sscanf(call_of_writer().c_str(), "%lu %*x %*x %*x %lx", &number, &timeout);
    if (read == 2 && number == SYS_futex && (timeout == 0) == (sleep == Sleep::for_good)) {
      return true;
    }
    sched_yield();
  } while (Clock::now() < deadline);
  return false;
}

/// Whether the writer has filled the pipe and given up for now, most likely in a line.
bool stuck(const Pipe& pipe) {
  const Instant deadline = Clock::now() + soon;
  while (pipe.waiting() < 60'000 && Clock::now() < deadline) sched_yield();
  return came_to(Sleep::nap);
}

TEST(AccessLog, WritesLinesInTheOrderOfTheirWorker) {
  const TemporaryDirectory folder;
  const auto log = open_log(folder / "log", 2);

  log->ring(0).append("first\n");
  log->ring(0).append("second\n");
  ASSERT_TRUE(log->flush(soon));
  log->ring(1).append("third\n");
  ASSERT_TRUE(log->flush(soon));

  EXPECT_EQ(contents_of(folder / "log"), "first\nsecond\nthird\n");
  EXPECT_EQ(log->dropped(), 0u);
}

TEST(AccessLog, AppendsToAFileThatIsThere) {
  const TemporaryDirectory folder;
  std::ofstream(folder / "log") << "before\n";

  auto log = open_log(folder / "log");
  log->ring(0).append("after\n");
  log.reset();

  EXPECT_EQ(contents_of(folder / "log"), "before\nafter\n");
}

TEST(AccessLog, WritesAllThatIsLeftWhenItEnds) {
  const TemporaryDirectory folder;
  auto log = open_log(folder / "log");

  for (unsigned i = 0; i < 1'000; ++i) ASSERT_TRUE(log->ring(0).append(numbered(0, i)));
  log.reset();

  EXPECT_EQ(count_of_ordered(lines_of(contents_of(folder / "log"))), 1'000u);
}

TEST(AccessLog, SaysWhyAFileCannotBeOpened) {
  const TemporaryDirectory folder;

  auto log = AccessLog::open(folder / "missing/log", 1);

  ASSERT_FALSE(log);
  EXPECT_EQ(log.error().detail,
            "cannot open access log " + (folder / "missing/log") + ": No such file or directory");
}

TEST(AccessLog, GoesToTheNewFileAfterReopen) {
  const TemporaryDirectory folder;
  const auto log = open_log(folder / "log");
  log->ring(0).append("old\n");
  ASSERT_TRUE(log->flush(soon));
  std::filesystem::rename(folder / "log", folder / "log.1");

  ASSERT_TRUE(log->reopen());
  log->ring(0).append("new\n");
  ASSERT_TRUE(log->flush(soon));

  EXPECT_EQ(contents_of(folder / "log.1"), "old\n");
  EXPECT_EQ(contents_of(folder / "log"), "new\n");
}

TEST(AccessLog, StaysWithTheOldFileWhenItCannotReopen) {
  const TemporaryDirectory folder;
  std::filesystem::create_directory(folder / "logs");
  const auto log = open_log(folder / "logs/log");
  std::filesystem::rename(folder / "logs", folder / "moved");

  const auto reopened = log->reopen();
  log->ring(0).append("line\n");
  ASSERT_TRUE(log->flush(soon));

  EXPECT_FALSE(reopened);
  EXPECT_EQ(contents_of(folder / "moved/log"), "line\n");
}

TEST(AccessLog, SwitchesWhereEachWorkerSays) {
  const TemporaryDirectory folder;
  auto log = AccessLog::open(folder / "old", 2);
  ASSERT_TRUE(log.ok());
  auto next = AccessLogDestination::open(folder / "new");
  ASSERT_TRUE(next.ok());
  (*log)->switch_to(std::move(*next));
  (*log)->ring(0).append("old 0\n");
  (*log)->ring(0).begin_destination();
  (*log)->ring(0).append("new 0\n");
  EXPECT_FALSE((*log)->flush(100ms)) << "it waits for the other worker";
  (*log)->ring(1).append("old 1\n");
  (*log)->ring(1).begin_destination();
  EXPECT_TRUE((*log)->flush(soon));
  (*log)->ring(1).append("new 1\n");
  log->reset();
  EXPECT_EQ(contents_of(folder / "old"), "old 0\nold 1\n");
  EXPECT_EQ(contents_of(folder / "new"), "new 0\nnew 1\n");
}

TEST(AccessLog, SwitchesAtOnceFromADestinationThatTakesNothing) {
  const TemporaryDirectory folder;
  auto log = AccessLog::open("/dev/full", 2);
  ASSERT_TRUE(log.ok());
  (*log)->ring(0).append("kept\n");
  EXPECT_FALSE((*log)->flush(100ms));
  auto next = AccessLogDestination::open(folder / "new");
  ASSERT_TRUE(next.ok());
  (*log)->switch_to(std::move(*next));
  EXPECT_TRUE((*log)->flush(soon));
  EXPECT_EQ(contents_of(folder / "new"), "kept\n");
}

TEST(AccessLog, NeverBlocksOnAFullDiskAndCountsWhatIsLost) {
  const auto log = open_log("/dev/full", 1, {.ring_bytes = 4096});
  std::uint64_t taken = 0;

  while (log->ring(0).append("0123456789\n")) ++taken;

  EXPECT_EQ(taken, 4096u / 11);
  EXPECT_EQ(log->dropped(), 1u);
  EXPECT_FALSE(log->ring(0).append("0123456789\n"));
  EXPECT_EQ(log->dropped(), 2u);
}

TEST(AccessLog, WritesWhatItKeptOnceThereIsRoomAgain) {
  const TemporaryDirectory folder;
  std::filesystem::create_symlink("/dev/full", folder / "log");
  const auto log = open_log(folder / "log");
  log->ring(0).append("kept\n");
  EXPECT_FALSE(log->flush(1ms));

  std::filesystem::remove(folder / "log");
  ASSERT_TRUE(log->reopen());
  ASSERT_TRUE(log->flush(soon));

  EXPECT_EQ(contents_of(folder / "log"), "kept\n");
  EXPECT_EQ(log->dropped(), 0u);
}

TEST(AccessLog, EndsAtOnceOnAFullDisk) {
  auto log = open_log("/dev/full", 1, {.close_deadline = 1h});
  log->ring(0).append("lost\n");

  log.reset();  // the test's time limit holds it to that
}

TEST(AccessLog, KeepsTheFirstLinesForTheReaderOfAPipeThatComesLater) {
  const TemporaryDirectory folder;
  const std::string path = folder / "pipe";
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  const auto log = open_log(path);

  log->ring(0).append("early\n");
  ASSERT_TRUE(log->flush(soon));

  const int reader = ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  char bytes[64] = {};
  EXPECT_EQ(::read(reader, bytes, sizeof bytes), 6);
  EXPECT_STREQ(bytes, "early\n");
  EXPECT_EQ(log->dropped(), 0u);
  ::close(reader);
}

TEST(AccessLog, SurvivesAClosedReaderAndCountsLostLines) {
  Pipe pipe;
  const auto log = open_log(pipe.path());
  log->ring(0).append("read\n");
  ASSERT_TRUE(log->flush(soon));
  pipe.close();

  log->ring(0).append("lost\n");
  log->ring(0).append("lost\n");
  ASSERT_TRUE(log->flush(soon));

  EXPECT_EQ(log->dropped(), 2u);
}

TEST(AccessLog, GivesUpAReaderThatTakesNothingWhenItEnds) {
  Pipe pipe;
  auto log = open_log(pipe.path(), 1, {.ring_bytes = 256 * 1024, .close_deadline = 10ms});
  while (log->ring(0).append(numbered(0, 150))) {
  }

  log.reset();  // would hang for ever if it wrote blockingly
}

TEST(AccessLog, GivesASlowReaderWholeLinesInOrder) {
  Pipe pipe;
  auto log = open_log(pipe.path(), 2, {.ring_bytes = 8192});
  std::string text;
  std::uint64_t lost = 0;
  constexpr unsigned lines = 20'000;

  std::thread reader([&] { text = pipe.read_all(); });
  for (unsigned i = 0; i < lines; ++i) {
    for (unsigned worker : {0u, 1u}) log->ring(worker).append(numbered(worker, i));
  }
  ASSERT_TRUE(log->flush(soon));
  lost = log->dropped();
  log.reset();
  reader.join();

  EXPECT_EQ(count_of_ordered(lines_of(text)) + lost, 2 * lines);
}

TEST(AccessLog, FinishesALineThatAPipeTookInPart) {
  Pipe pipe;
  auto log = open_log(pipe.path(), 1, {.ring_bytes = 512 * 1024});
  unsigned taken = 0;
  while (log->ring(0).append(numbered(0, taken))) ++taken;  // far more than a pipe holds

  std::string text;
  std::thread reader([&] { text = pipe.read_all(); });
  ASSERT_TRUE(log->flush(soon));
  log.reset();
  reader.join();

  EXPECT_EQ(count_of_ordered(lines_of(text)), taken);
}

TEST(AccessLog, FinishesALineBeforeAnotherWorkerHasItsTurn) {
  if (!kernel_shows_writer()) GTEST_SKIP() << "the kernel does not show the writer's system call";
  Pipe pipe;
  auto log = open_log(pipe.path(), 2);
  unsigned taken = 0;
  while (log->ring(1).append(numbered(1, taken))) ++taken;
  ASSERT_TRUE(stuck(pipe));

  log->ring(0).append(numbered(0, 0));
  std::string text;
  std::thread reader([&] { text = pipe.read_all(); });
  ASSERT_TRUE(log->flush(soon));
  log.reset();
  reader.join();

  EXPECT_EQ(count_of_ordered(lines_of(text)), taken + 1);
}

TEST(AccessLog, GivesUpALineThatTheOldFileHasInPart) {
  if (!kernel_shows_writer()) GTEST_SKIP() << "the kernel does not show the writer's system call";
  Pipe pipe;
  auto log = open_log(pipe.path());
  unsigned taken = 0;
  while (log->ring(0).append(numbered(0, taken))) ++taken;
  const std::uint64_t refused = log->dropped();
  ASSERT_TRUE(stuck(pipe));
  std::filesystem::remove(pipe.path());

  ASSERT_TRUE(log->reopen());
  ASSERT_TRUE(log->flush(soon));

  const std::string old_text = pipe.read_some(pipe.waiting());
  const std::string whole = old_text.substr(0, old_text.rfind('\n') + 1);
  const unsigned cut = whole.size() < old_text.size();  // as good as always
  EXPECT_EQ(log->dropped(), refused + cut);
  const std::string new_text = contents_of(pipe.path());
  EXPECT_EQ(count_of_ordered(lines_of(whole + new_text)) + cut, taken);
}

/// Standard output is this socket while it lives, as under systemd.
class SocketAsStdout {
 public:
  SocketAsStdout() {
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends_) != 0) std::abort();
    std::fflush(stdout);
    saved_ = dup(STDOUT_FILENO);
    dup2(ends_[1], STDOUT_FILENO);
  }
  ~SocketAsStdout() {
    restore();
    ::close(ends_[0]);
  }
  void restore() {
    if (saved_ < 0) return;
    dup2(saved_, STDOUT_FILENO);
    ::close(saved_);
    ::close(ends_[1]);
    saved_ = -1;
  }
  int reader() const { return ends_[0]; }

 private:
  int ends_[2];
  int saved_;
};

TEST(AccessLog, WritesToStandardOutputThatIsASocket) {
  SocketAsStdout standard;
  const auto log = open_log("stdout");
  standard.restore();

  log->ring(0).append("line\n");

  char bytes[5];
  EXPECT_EQ(recv(standard.reader(), bytes, sizeof bytes, MSG_WAITALL), 5);
  EXPECT_EQ(std::string(bytes, 5), "line\n");
}

TEST(AccessLog, LeavesAStandardOutputThatOthersShareBlocking) {
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  std::fflush(stdout);
  const int saved = dup(STDOUT_FILENO);
  dup2(ends[1], STDOUT_FILENO);
  const auto log = open_log("stdout");
  const int flags = fcntl(STDOUT_FILENO, F_GETFL);
  dup2(saved, STDOUT_FILENO);
  ::close(saved);

  log->ring(0).append("line\n");

  char bytes[5];
  EXPECT_EQ(::read(ends[0], bytes, sizeof bytes), 5);
  EXPECT_EQ(flags & O_NONBLOCK, 0);
  for (const int end : ends) ::close(end);
}

TEST(AccessLog, SleepsWithoutATimerWhenIdleAndWakesForALine) {
  if (!kernel_shows_writer()) GTEST_SKIP() << "the kernel does not show the writer's system call";
  Pipe pipe;
  const auto log = open_log(pipe.path());

  for (unsigned i = 0; i < 4; ++i) {
    ASSERT_TRUE(came_to(Sleep::for_good));
    log->ring(0).append("line\n");
    ASSERT_EQ(pipe.read_some(), "line\n");  // would block for ever if the writer were not woken
  }
}

TEST(AccessLog, TakesNoMemoryForUnusedRings) {
  const TemporaryDirectory folder;
  const auto resident = [] {
    std::ifstream file("/proc/self/statm");
    std::size_t total = 0;
    std::size_t pages = 0;
    file >> total >> pages;
    return pages * static_cast<std::size_t>(getpagesize());
  };
  open_log(folder / "log");  // whatever the first one needs besides
  const auto before = resident();

  const auto log = open_log(folder / "log", 64, {.ring_bytes = 1024 * 1024});

  EXPECT_LT(resident(), before + 1024 * 1024);
}

TEST(AccessLog, LosesNothingUncountedWhenManyWorkersWriteAndTheFileIsReopened) {
  constexpr unsigned workers = 4;
  constexpr unsigned lines = 20'000;
  const TemporaryDirectory folder;
  auto log = open_log(folder / "log", workers, {.ring_bytes = 4096});
  std::atomic<unsigned> done{0};

  std::vector<std::thread> threads;
  for (unsigned worker = 0; worker < workers; ++worker) {
    threads.emplace_back([&, worker] {
      for (unsigned i = 0; i < lines; ++i) log->ring(worker).append(numbered(worker, i));
      done.fetch_add(1);
    });
  }
  int files = 1;
  while (done.load() < workers) {
    std::filesystem::rename(folder / "log", folder / ("log." + std::to_string(files++)));
    ASSERT_TRUE(log->reopen());
    ASSERT_TRUE(log->flush(soon));
    ASSERT_LE(log->dropped(), std::uint64_t{workers} * lines);
  }
  for (auto& thread : threads) thread.join();
  ASSERT_TRUE(log->flush(soon));
  const std::uint64_t lost = log->dropped();
  log.reset();

  std::string text;
  for (int i = 1; i < files; ++i) text += contents_of(folder / ("log." + std::to_string(i)));
  text += contents_of(folder / "log");
  EXPECT_EQ(count_of_ordered(lines_of(text)) + lost, std::uint64_t{workers} * lines);
}

}  // namespace
}  // namespace evenkeel::testing
