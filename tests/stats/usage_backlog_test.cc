// The records of a usage file that were not sent yet: each comes once, whatever happens to the
// file.
#include "evenkeel/stats/usage_backlog.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "stats/temporary_directory.h"

namespace evenkeel::testing {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

/// A line with a record; ids of later records are greater.
std::string line(int number) {
  return fmt::format(
      "{{\"specversion\":\"1.0\",\"id\":\"01a2-{:04}\",\"source\":\"s\",\"type\":"
      "\"evenkeel.request\",\"time\":\"2026-11-28T13:05:07.250Z\",\"data\":{{}}}}\n",
      number);
}

/// Files that the tests write are newer.
constexpr std::chrono::sys_days since = std::chrono::year(2026) / 11 / 1;

class UsageBacklogTest : public ::testing::Test {
 protected:
  UsageBacklogTest() { open(); }

  /// Reads as another process does that has been started.
  void open() {
    backlog_.emplace(path(), since);
    const auto opened = backlog_->open();
    ASSERT_TRUE(opened.ok() && *opened);
  }
  void end() { backlog_.reset(); }

  std::string path(const std::string& name = "usage.jsonl") const { return folder_ / name; }
  void append(const std::string& text, const std::string& name = "usage.jsonl") const {
    std::ofstream(path(name), std::ios::app) << text;
  }
  void append(int first, int last) const {
    for (int i = first; i <= last; ++i) append(line(i));
  }
  void move_to(const std::string& name) const { std::filesystem::rename(path(), path(name)); }

  std::vector<UnsentRecord> read(std::size_t max = 100) {
    auto records = backlog_->read(now_, max);
    EXPECT_TRUE(records.ok());
    return std::move(*records);
  }
  /// The numbers of the records that come, which count as sent.
  std::vector<int> send(std::size_t max = 100) {
    const auto records = read(max);
    if (!records.empty()) {
      EXPECT_TRUE(backlog_->mark_sent(records.back()).ok());
    }
    std::vector<int> numbers;
    for (const UnsentRecord& each : records) {
      EXPECT_EQ(each.json + "\n", line(std::stoi(each.id.substr(5))));
      numbers.push_back(std::stoi(each.id.substr(5)));
    }
    return numbers;
  }
  /// The same after the time for which a moved file is read on.
  std::vector<int> send_later() {
    EXPECT_THAT(send(), IsEmpty()) << "the file may get more";
    now_ += UsageBacklog::moved_wait;
    return send();
  }

  const TemporaryDirectory folder_;
  std::optional<UsageBacklog> backlog_;
  Instant now_{1h};
};

TEST_F(UsageBacklogTest, GivesEachRecordOnceInOrder) {
  EXPECT_THAT(send(), IsEmpty());
  append(1, 3);
  EXPECT_THAT(send(2), ElementsAre(1, 2));
  append(4, 4);
  EXPECT_THAT(send(2), ElementsAre(3, 4));
  EXPECT_THAT(send(), IsEmpty());
}

TEST_F(UsageBacklogTest, GivesAgainWhatWasNotMarked) {
  append(1, 3);
  EXPECT_EQ(read().size(), 3u);
  const auto records = read();
  ASSERT_EQ(records.size(), 3u);
  ASSERT_TRUE(backlog_->mark_sent(records[0]).ok());
  EXPECT_THAT(send(), ElementsAre(2, 3));
}

TEST_F(UsageBacklogTest, WaitsForTheEndOfALine) {
  append(line(1) + line(2).substr(0, 40));
  EXPECT_THAT(send(), ElementsAre(1));
  EXPECT_THAT(send(), IsEmpty());
  append(line(2).substr(40));
  EXPECT_THAT(send(), ElementsAre(2));
}

TEST_F(UsageBacklogTest, SkipsLinesThatAreNoRecords) {
  append("\n{\"torn\n" + line(1) + line(2).substr(0, 40) + "\n");
  EXPECT_THAT(send(), ElementsAre(1));
  append(std::string(3 * 1024 * 1024, 'x'));
  EXPECT_THAT(send(), IsEmpty());
  append("\n" + line(3).substr(0, 30) + line(4) + line(5));
  EXPECT_THAT(send(), ElementsAre(4, 5)) << "4 stands behind half a record";
}

TEST_F(UsageBacklogTest, GoesOnInAnotherProcess) {
  append(1, 3);
  EXPECT_THAT(send(2), ElementsAre(1, 2));
  end();
  append(4, 4);
  open();
  EXPECT_THAT(send(), ElementsAre(3, 4));
}

TEST_F(UsageBacklogTest, IsSentByOneProcessAtATime) {
  UsageBacklog other(path(), since);
  for (int i = 1; i < 4; ++i) {
    append(i, i);
    EXPECT_THAT(send(), ElementsAre(i));
    auto opened = other.open();
    ASSERT_TRUE(opened.ok());
    EXPECT_FALSE(*opened) << "the file with the position is another one each time";
  }
  end();
  append(4, 4);
  auto opened = other.open();
  ASSERT_TRUE(opened.ok() && *opened);
  const auto records = other.read(now_, 10);
  ASSERT_TRUE(records.ok());
  ASSERT_EQ(records->size(), 1u);
  EXPECT_EQ(records->front().id, "01a2-0004");
}

TEST_F(UsageBacklogTest, ReadsAMovedFileToItsEndAndThenTheNewOne) {
  append(1, 2);
  EXPECT_THAT(send(1), ElementsAre(1));
  move_to("usage.jsonl.1");
  append(line(3), "usage.jsonl.1");  // its writer has not opened the new one yet
  EXPECT_THAT(send(), ElementsAre(2, 3));
  append(5, 6);
  EXPECT_THAT(send(), IsEmpty());
  append(line(4), "usage.jsonl.1");
  EXPECT_THAT(send(), ElementsAre(4));
  EXPECT_THAT(send_later(), ElementsAre(5, 6));
}

TEST_F(UsageBacklogTest, StaysWithAMovedFileUntilThereIsANewOne) {
  append(1, 1);
  EXPECT_THAT(send(), ElementsAre(1));
  move_to("elsewhere");
  now_ += 1h;
  EXPECT_THAT(send(), IsEmpty());
  append(line(2), "elsewhere");
  EXPECT_THAT(send(), ElementsAre(2));
  std::ofstream(path()) << "";
  now_ += 1h;
  EXPECT_THAT(send(), IsEmpty());
  append(line(3), "elsewhere");
  EXPECT_THAT(send(), ElementsAre(3)) << "the new one has no record yet";
}

TEST_F(UsageBacklogTest, FindsTheFilesThatWereMovedWhileNoProcessRan) {
  append(1, 3);
  EXPECT_THAT(send(1), ElementsAre(1));
  end();
  append(line(0), "usage.jsonl.4");  // older
  append(line(2), "usage-b.jsonl");  // another daemon's
  move_to("usage.jsonl.3");
  append(4, 5);
  move_to("usage.jsonl.2");
  append(6, 6);
  move_to("usage.jsonl.1");
  append(7, 7);
  open();
  EXPECT_THAT(send(), ElementsAre(2, 3));
  EXPECT_THAT(send_later(), ElementsAre(4, 5));
  EXPECT_THAT(send_later(), ElementsAre(6));
  EXPECT_THAT(send_later(), ElementsAre(7));
  append(8, 8);
  EXPECT_THAT(send(), ElementsAre(8));
}

TEST_F(UsageBacklogTest, IsFoundThoughNothingWasSentYet) {
  append(1, 2);
  EXPECT_EQ(read().size(), 2u);
  end();
  move_to("usage-20261128.jsonl");
  append(3, 3);
  open();
  EXPECT_THAT(send(), ElementsAre(1, 2));
  EXPECT_THAT(send_later(), ElementsAre(3));
}

TEST_F(UsageBacklogTest, BeginsWithTheFirstFileAfterItsStart) {
  end();
  std::filesystem::remove(path("usage.jsonl.sent"));
  append(line(1), "usage.jsonl.3");
  std::filesystem::last_write_time(path("usage.jsonl.3"),
                                   std::filesystem::file_time_type::clock::from_sys(since - 1ns));
  append(2, 3);
  move_to("usage.jsonl.2");
  open();
  append(4, 4);
  EXPECT_THAT(send(), ElementsAre(2, 3));
  EXPECT_THAT(send_later(), ElementsAre(4));
}

TEST_F(UsageBacklogTest, GoesOnBehindAFileThatIsGone) {
  append(1, 2);
  EXPECT_THAT(send(), ElementsAre(1, 2));
  end();
  std::filesystem::remove(path());
  append(3, 4);  // perhaps with the inode of the one that is gone, and of the same size
  open();
  EXPECT_THAT(send(), ElementsAre(3, 4));
}

TEST_F(UsageBacklogTest, BeginsAgainWhereTheFileIsTruncated) {
  append(1, 2);
  EXPECT_THAT(send(), ElementsAre(1, 2));
  std::filesystem::resize_file(path(), 0);
  EXPECT_THAT(send(), IsEmpty());
  append(3, 6);  // more than it had
  EXPECT_THAT(send(), ElementsAre(3, 4, 5, 6));
}

TEST_F(UsageBacklogTest, ReadsTheRestOfATruncatedFileFromItsCopy) {
  append(1, 3);
  EXPECT_THAT(send(1), ElementsAre(1));
  std::filesystem::copy_file(path(), path("usage.jsonl.1"));
  std::filesystem::resize_file(path(), 0);
  append(4, 4);
  EXPECT_THAT(send(), ElementsAre(2, 3));
  EXPECT_THAT(send_later(), ElementsAre(4));
}

TEST_F(UsageBacklogTest, SendsAFileAgainWhoseEndAPowerFailureHasTaken) {
  append(1, 3);
  EXPECT_THAT(send(), ElementsAre(1, 2, 3));
  end();
  std::filesystem::resize_file(path(), line(1).size() + 10);
  append("\n");
  append(4, 5);
  open();
  EXPECT_THAT(send(), ElementsAre(1, 4, 5)) << "4 may begin in front of where the third had ended";
}

TEST_F(UsageBacklogTest, SendsTheFileAgainWithoutAPosition) {
  append(1, 2);
  EXPECT_THAT(send(), ElementsAre(1, 2));
  end();
  std::ofstream(path("usage.jsonl.sent")) << "{\"file\":\"01a2-0001\",\"offset\":\"x\"}";
  open();
  EXPECT_THAT(send(), ElementsAre(1, 2));
}

TEST_F(UsageBacklogTest, KeepsItsPositionInOneWholeFile) {
  append(1, 2);
  send(1);
  EXPECT_EQ(contents_of(path("usage.jsonl.sent")),
            fmt::format("{{\"file\":\"01a2-0001\",\"offset\":{},\"last\":\"01a2-0001\"}}\n",
                        line(1).size()));
  EXPECT_FALSE(std::filesystem::exists(path("usage.jsonl.sent.new")));
}

TEST_F(UsageBacklogTest, NeedsARegularFileForItsPosition) {
  end();
  std::filesystem::remove(path("usage.jsonl.sent"));
  std::filesystem::create_directory(path("usage.jsonl.sent"));
  UsageBacklog backlog(path(), since);
  EXPECT_FALSE(backlog.open().ok());
  EXPECT_FALSE(UsageBacklog(path("none/usage.jsonl"), since).open().ok());
}

TEST(UsageFileNames, ThatHaveANumberOrADateAreThoseOfMovedFiles) {
  for (const char* name : {"usage.jsonl.1", "usage.jsonl.14", "usage.1", "usage.jsonl-20261128",
                           "usage-20261128.jsonl", "usage.2026-11-28T13:05:07Z.jsonl"})
    EXPECT_TRUE(is_moved_name(name, "usage.jsonl")) << name;
  for (const char* name : {"usage.jsonl", "usage", "usage.jsonl.", "usage.jsonl.sent",
                           "usage.jsonl.1.gz", "usage-b.jsonl", "audit.jsonl.1", "usage.jsonl.old"})
    EXPECT_FALSE(is_moved_name(name, "usage.jsonl")) << name;
  EXPECT_TRUE(is_moved_name("usage.1", "usage"));
  EXPECT_TRUE(is_moved_name(".usage.1", ".usage"));
}

}  // namespace
}  // namespace evenkeel::testing
