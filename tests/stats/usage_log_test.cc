// The log of usage records: nothing is lost silently, and nothing is in it twice.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <utility>

#include "evenkeel/stats/access_log.h"
#include "stats/temporary_directory.h"

namespace evenkeel::testing {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;

constexpr std::chrono::milliseconds soon{20'000};  // reached only by a failing test

std::unique_ptr<AccessLog> open_usage(const std::string& path, std::size_t ring_bytes = 65536) {
  AccessLog::Options options = AccessLog::Options::for_usage();
  options.ring_bytes = ring_bytes;
  options.close_deadline = 10ms;
  auto log = AccessLog::open(path, 1, options);
  EXPECT_TRUE(log) << log.error().detail;
  return std::move(*log);
}

/// Files of this process grow no further; the rest of a write fails.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) {
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &former_);
    const rlimit limit{.rlim_cur = bytes, .rlim_max = former_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() { lift(); }
  void lift() { setrlimit(RLIMIT_FSIZE, &former_); }

 private:
  rlimit former_{};
};

TEST(UsageLog, AppendsWholeLinesAndCountsThem) {
  const TemporaryDirectory folder;
  std::ofstream(folder / "usage") << "before\n";
  auto log = open_usage(folder / "usage");

  log->ring(0).append("one\n");
  log->ring(0).append("two\n");
  ASSERT_TRUE(log->flush(soon));

  EXPECT_EQ(contents_of(folder / "usage"), "before\none\ntwo\n");
  EXPECT_EQ(log->written(), 2u);
}

TEST(UsageLog, EndsALineThatAnotherProcessHasTorn) {
  const TemporaryDirectory folder;
  std::ofstream(folder / "usage") << "whole\nhal";
  auto log = open_usage(folder / "usage");

  log->ring(0).append("one\n");
  ASSERT_TRUE(log->flush(soon));

  EXPECT_EQ(contents_of(folder / "usage"), "whole\nhal\none\n");
}

TEST(UsageLog, WritesARecordAnewThatAFullDiskHasCut) {
  const TemporaryDirectory folder;
  auto log = open_usage(folder / "usage");
  FileSizeLimit limit(10);

  log->ring(0).append("first\n");
  log->ring(0).append("second\n");
  EXPECT_FALSE(log->flush(300ms));
  EXPECT_EQ(contents_of(folder / "usage"), "first\nseco");
  limit.lift();
  ASSERT_TRUE(log->flush(soon));

  EXPECT_EQ(contents_of(folder / "usage"), "first\nseco\nsecond\n");
  EXPECT_EQ(log->written(), 2u);
  EXPECT_EQ(log->dropped(), 0u);
}

TEST(UsageLog, KeepsRecordsWhateverTheErrorAndCountsThoseWithoutRoom) {
  const TemporaryDirectory folder;
  std::filesystem::create_symlink("/dev/full", folder / "usage");
  auto log = open_usage(folder / "usage", 16384);
  std::uint64_t kept = 0;

  while (log->ring(0).append("0123456789\n")) ++kept;
  EXPECT_EQ(log->dropped(), 1u);
  std::filesystem::remove(folder / "usage");
  ASSERT_TRUE(log->reopen());
  ASSERT_TRUE(log->flush(soon));

  EXPECT_EQ(lines_of(contents_of(folder / "usage")).size(), kept);
  EXPECT_EQ(log->written(), kept);
  EXPECT_EQ(log->dropped(), 1u);
}

TEST(UsageLog, KeepsItsRecordsWhileItsMemoryIsReturned) {
  const TemporaryDirectory folder;
  auto log = open_usage(folder / "usage", 4 * 1024 * 1024);
  std::string expected;

  for (int i = 0; i < 60'000; ++i) {
    const std::string line = std::to_string(i) + std::string(190, '.') + "\n";
    while (!log->ring(0).append(line)) log->flush(soon);
    expected += line;
  }
  ASSERT_TRUE(log->flush(soon));

  EXPECT_TRUE(contents_of(folder / "usage") == expected);
}

TEST(UsageLog, ContinuesInANewFileWithoutALoss) {
  const TemporaryDirectory folder;
  auto log = open_usage(folder / "usage");
  log->ring(0).append("one\n");
  ASSERT_TRUE(log->flush(soon));

  std::filesystem::rename(folder / "usage", folder / "usage.1");
  log->ring(0).append("two\n");
  ASSERT_TRUE(log->flush(soon));
  ASSERT_TRUE(log->reopen());
  ASSERT_TRUE(log->flush(soon));
  log->ring(0).append("three\n");
  log.reset();

  EXPECT_EQ(contents_of(folder / "usage.1") + contents_of(folder / "usage"), "one\ntwo\nthree\n");
}

TEST(UsageLog, RefusesWhatIsNoFile) {
  const TemporaryDirectory folder;

  const auto log = AccessLog::open(folder / "no/usage", 1, AccessLog::Options::for_usage());

  ASSERT_FALSE(log);
  EXPECT_NE(log.error().detail.find("cannot open file of usage records"), std::string::npos);
}

}  // namespace
}  // namespace evenkeel::testing
