// The access log to a syslog: a datagram for each line.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "evenkeel/stats/access_log.h"
#include "stats/temporary_directory.h"

namespace evenkeel::testing {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;

constexpr auto soon = 20s;

/// A syslog that keeps what it is sent until it is asked.
class Syslog {
 public:
  explicit Syslog(const std::filesystem::path& path) : fd_(socket(AF_UNIX, SOCK_DGRAM, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strcpy(address.sun_path, path.c_str());
    EXPECT_EQ(bind(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  }
  ~Syslog() { close(fd_); }
  Syslog(const Syslog&) = delete;

  /// The next line; nothing if none comes in time.
  std::optional<std::string> line(int milliseconds = 20'000) {
    pollfd wanted{.fd = fd_, .events = POLLIN, .revents = 0};
    if (poll(&wanted, 1, milliseconds) != 1) return std::nullopt;
    std::array<char, 65536> bytes;
    const ssize_t size = recv(fd_, bytes.data(), bytes.size(), 0);
    return std::string(bytes.data(), static_cast<std::size_t>(size));
  }

 private:
  int fd_;
};

/// The lines of the daemon's log, which are on stderr otherwise.
class LogOfDaemon {
 public:
  LogOfDaemon() {
    EXPECT_EQ(pipe(ends_.data()), 0);
    EXPECT_EQ(dup2(ends_[1], STDERR_FILENO), STDERR_FILENO);
  }
  ~LogOfDaemon() {
    dup2(stderr_, STDERR_FILENO);
    for (const int fd : {ends_[0], ends_[1], stderr_}) close(fd);
  }
  LogOfDaemon(const LogOfDaemon&) = delete;

  std::string line() const {
    pollfd wanted{.fd = ends_[0], .events = POLLIN, .revents = 0};
    if (poll(&wanted, 1, 20'000) != 1) return {};
    std::array<char, 4096> bytes;
    const ssize_t size = read(ends_[0], bytes.data(), bytes.size());
    return std::string(bytes.data(), static_cast<std::size_t>(size));
  }

 private:
  const int stderr_ = dup(STDERR_FILENO);
  std::array<int, 2> ends_{};
};

std::unique_ptr<AccessLog> open_log(const std::filesystem::path& socket,
                                    AccessLog::Options options = {}) {
  auto log = AccessLog::open("syslog:" + socket.string(), 1, options);
  EXPECT_TRUE(log.ok());
  return log.ok() ? std::move(*log) : nullptr;
}

TEST(SyslogAccessLog, SendsEachLineAsADatagram) {
  const TemporaryDirectory folder;
  Syslog syslog(folder / "log");
  const auto log = open_log(folder / "log");
  log->ring(0).append("first\n");
  log->ring(0).append("{\"second\":2}\n");
  const std::string header =
      "<190>[A-Z][a-z][a-z] [ 0-9][0-9] [0-9:]{8} evenkeel\\[" + std::to_string(getpid()) + "\\]: ";
  EXPECT_THAT(syslog.line().value_or(""), MatchesRegex(header + "first"));
  EXPECT_THAT(syslog.line().value_or(""), MatchesRegex(header + "\\{\"second\":2\\}"));
  EXPECT_EQ(log->dropped(), 0u);
}

TEST(SyslogAccessLog, SendsWholeLinesThatWrapAroundTheRing) {
  const TemporaryDirectory folder;
  Syslog syslog(folder / "log");
  const auto log = open_log(folder / "log", {.ring_bytes = 4096});
  for (int i = 0; i < 20; ++i) {
    const std::string line(999, static_cast<char>('a' + i));
    log->ring(0).append(line + "\n");
    EXPECT_THAT(syslog.line().value_or(""), ::testing::EndsWith("]: " + line));
  }
}

TEST(SyslogAccessLog, FindsASyslogThatHasStartedAgain) {
  const TemporaryDirectory folder;
  auto syslog = std::make_unique<Syslog>(folder / "log");
  const auto log = open_log(folder / "log");
  log->ring(0).append("before\n");
  EXPECT_THAT(syslog->line().value_or(""), HasSubstr("before"));
  syslog.reset();
  std::filesystem::remove(folder / "log");
  log->ring(0).append("meanwhile\n");
  EXPECT_FALSE(log->flush(100ms)) << "it is kept";
  syslog = std::make_unique<Syslog>(folder / "log");
  EXPECT_THAT(syslog->line().value_or(""), HasSubstr("meanwhile"));
  EXPECT_EQ(log->dropped(), 0u);
}

TEST(SyslogAccessLog, CountsLinesThatNobodyReadsAndEndsAllTheSame) {
  const TemporaryDirectory folder;
  Syslog syslog(folder / "log");
  auto log = open_log(folder / "log", {.ring_bytes = 4096, .close_deadline = 10ms});
  int appended = 0;
  while (log->dropped() == 0) {
    log->ring(0).append(std::string(99, 'x') + "\n");
    ASSERT_LT(++appended, 10'000'000);
  }
  log.reset();
  EXPECT_TRUE(syslog.line());
}

TEST(SyslogAccessLog, MayBeThereBeforeItsSyslog) {
  const TemporaryDirectory folder;
  const auto log = open_log(folder / "log");
  log->ring(0).append("early\n");
  EXPECT_FALSE(log->flush(100ms)) << "it is kept";
  Syslog syslog(folder / "log");
  EXPECT_THAT(syslog.line().value_or(""), HasSubstr("early"));
  EXPECT_EQ(log->dropped(), 0u);
}

TEST(SyslogAccessLog, CountsAndReportsALineThatIsTooLong) {
  const TemporaryDirectory folder;
  Syslog syslog(folder / "log");
  const auto log = open_log(folder / "log");
  log->ring(0).append("before\n");
  EXPECT_THAT(syslog.line().value_or(""), HasSubstr("before"));
  const LogOfDaemon daemon_log;
  for (int i = 0; i < 2; ++i) log->ring(0).append(std::string(900'000, 'x') + "\n");
  log->ring(0).append("after\n");
  EXPECT_THAT(syslog.line().value_or(""), HasSubstr("after"));
  EXPECT_EQ(log->dropped(), 2u);
  EXPECT_THAT(daemon_log.line(),
              HasSubstr("a line of the access log is lost: it has 900001 bytes"));
}

TEST(SyslogAccessLog, SaysWhyItCannotBeOpened) {
  const auto log = AccessLog::open("syslog:/" + std::string(200, 'x'), 1);
  ASSERT_FALSE(log.ok());
  EXPECT_THAT(log.error().detail, HasSubstr("File name too long"));
}

}  // namespace
}  // namespace evenkeel::testing
