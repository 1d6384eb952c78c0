#include "base/line_writer.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <thread>
#include <utility>

namespace evenkeel {
namespace {

using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;
using namespace std::chrono_literals;

constexpr std::size_t capacity = 256 * 1024;

std::string notice(std::uint64_t dropped) { return "dropped " + std::to_string(dropped) + "\n"; }

std::string line(int number) {
  return "line " + std::to_string(number) + std::string(90, '.') + "\n";
}

class PipeWriter : public testing::Test {
 protected:
  PipeWriter() {
    int ends[2];
    EXPECT_EQ(pipe(ends), 0);
    reader_ = ends[0];
    write_end_ = ends[1];
    writer_ = std::make_unique<LineWriter>(write_end_, capacity, &notice);
  }
  ~PipeWriter() override {
    writer_.reset();
    close_reader();
    close(write_end_);
  }

  void close_reader() {
    if (reader_ >= 0) close(std::exchange(reader_, -1));
  }
  /// Reads until this many bytes have come.
  std::string read_bytes(std::size_t count) const {
    std::string text(count, '\0');
    std::size_t size = 0;
    while (size < count) {
      const ssize_t got = read(reader_, text.data() + size, count - size);
      if (got <= 0) break;
      size += static_cast<std::size_t>(got);
    }
    text.resize(size);
    return text;
  }
  std::string read_until(const std::string& end) const {
    std::string text;
    while (!text.ends_with(end)) text += read_bytes(1);
    return text;
  }

  int reader_ = -1;
  int write_end_ = -1;
  std::unique_ptr<LineWriter> writer_;
};

TEST_F(PipeWriter, WritesAllLinesInOrder) {
  std::string expected;
  for (int i = 0; i < 500; ++i) {
    writer_->append(line(i));
    expected += line(i);
  }

  EXPECT_EQ(read_bytes(expected.size()), expected);
  EXPECT_TRUE(writer_->flush(10s));
  EXPECT_EQ(writer_->dropped(), 0U);
}

TEST_F(PipeWriter, WritesALineThatIsLongerThanThePipeTakesAtOnce) {
  const std::string longest = std::string(200'000, 'x') + "\n";

  writer_->append(longest);

  EXPECT_EQ(read_bytes(longest.size()), longest);
}

TEST_F(PipeWriter, DropsAndCountsLinesThatAreNotRead) {
  constexpr int lines = 20'000;  // 2 MB
  for (int i = 0; i < lines; ++i) writer_->append(line(i));

  EXPECT_GT(writer_->dropped(), 10'000U);
  EXPECT_FALSE(writer_->flush(1ms)) << "gives up";
}

TEST_F(PipeWriter, SaysHowManyLinesAreMissingOnceItIsRead) {
  for (int i = 0; i < 20'000; ++i) writer_->append(line(i));
  const std::uint64_t dropped = writer_->dropped();
  std::string text;
  std::thread reader([&] { text = read_until("end\n"); });

  EXPECT_TRUE(writer_->flush(10s));
  writer_->append("end\n");

  reader.join();
  EXPECT_THAT(text, AllOf(StartsWith(line(0)), HasSubstr(line(100)), EndsWith("end\n")));
  std::uint64_t announced = 0;
  for (std::size_t at = text.find("dropped "); at != std::string::npos;
       at = text.find("dropped ", at + 1)) {
    announced += std::stoull(text.substr(at + 8));
  }
  EXPECT_EQ(announced, dropped);
}

TEST_F(PipeWriter, CountsLinesForAReaderThatHasGone) {
  close_reader();

  writer_->append(line(1));
  writer_->append(line(2));

  EXPECT_TRUE(writer_->flush(10s));
  EXPECT_EQ(writer_->dropped(), 2U);
}

TEST_F(PipeWriter, EndsWithoutWaitingForAReader) {
  for (int i = 0; i < 20'000; ++i) writer_->append(line(i));

  writer_.reset();  // hangs if it waits
}

TEST(FileWriter, CountsLinesBeyondTheFileSizeLimitAndGoesOnAfterwards) {
  char path[] = "/tmp/evenkeel-log-XXXXXX";
  const int fd = mkstemp(path);
  unlink(path);
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  LineWriter writer(fd, capacity, &notice);
  const auto append = [&](int number) {
    writer.append(line(number));
    EXPECT_TRUE(writer.flush(10s));
  };

  rlimit limited = before;
  limited.rlim_cur = 1;
  setrlimit(RLIMIT_FSIZE, &limited);
  writer.append("12");  // SIGXFSZ would end the process here
  writer.append("34");
  EXPECT_TRUE(writer.flush(10s));
  setrlimit(RLIMIT_FSIZE, &before);
  append(5);

  EXPECT_EQ(writer.dropped(), 2U);
  std::string text(300, '\0');
  text.resize(static_cast<std::size_t>(pread(fd, text.data(), text.size(), 0)));
  EXPECT_EQ(text, "1" + line(5) + notice(2));
  close(fd);
}

}  // namespace
}  // namespace evenkeel
