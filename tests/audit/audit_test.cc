#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>
#include <string>
#include <vector>

#include "audit/audit_file.h"
#include "evenkeel/audit/audit_log.h"
#include "evenkeel/audit/audit_record.h"
#include "evenkeel/audit/audit_verify.h"

namespace evenkeel {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

class Audit : public ::testing::Test {
 protected:
  Audit() {
    std::string name = ::testing::TempDir() + "auditXXXXXX";
    folder_ = mkdtemp(name.data());
    path_ = folder_ + "/audit.jsonl";
  }
  ~Audit() override { std::filesystem::remove_all(folder_); }

  AuditFile open(const std::string& key = "") {
    auto file = AuditFile::open(path_, key);
    EXPECT_TRUE(file);
    return std::move(*file);
  }
  static void append(AuditFile& file, int count = 1) {
    for (int i = 0; i < count; ++i)
      ASSERT_EQ(file.append(R"("time":"2026-11-29T00:00:00.000Z","event":"x")"), 0);
  }
  static std::vector<std::string> lines_of(const std::string& path) {
    std::ifstream input(path);
    std::vector<std::string> lines;
    for (std::string line; std::getline(input, line);) lines.push_back(line);
    return lines;
  }
  void write(const std::vector<std::string>& lines, const std::string& tail = "") {
    std::ofstream output(path_, std::ios::trunc);
    for (const std::string& line : lines) output << line << '\n';
    output << tail;
  }
  AuditVerdict verify(const std::string& key = "") { return verify_audit_files({path_}, key); }

  std::string folder_;
  std::string path_;
};

TEST_F(Audit, ChainOfOneProcessHolds) {
  AuditFile file = open();

  append(file, 3);

  const AuditVerdict verdict = verify();
  EXPECT_EQ(verdict.problem, "");
  EXPECT_EQ(verdict.records, 3u);
  EXPECT_EQ(verdict.last_hash, file.head().hash);
  EXPECT_EQ(verdict.first_time, "2026-11-29T00:00:00.000Z");
  EXPECT_THAT(verdict.notes, IsEmpty());
}

TEST_F(Audit, ProcessesThatAppendInTurnWriteOneChain) {
  AuditFile one = open();
  AuditFile other = open();

  append(one);
  append(other, 2);
  append(one);
  append(other);

  EXPECT_EQ(verify().problem, "");
  EXPECT_EQ(verify().records, 5u);
}

TEST_F(Audit, NextProcessContinuesTheChain) {
  {
    AuditFile file = open();
    append(file, 2);
  }
  AuditFile file = open();

  append(file);

  EXPECT_EQ(verify().problem, "");
  EXPECT_EQ(file.head().sequence, 3u);
}

TEST_F(Audit, EachWayToTamperIsFoundAtItsLine) {
  {
    AuditFile file = open();
    append(file, 5);
  }
  const std::vector<std::string> good = lines_of(path_);
  const auto told = [&](std::vector<std::string> lines) {
    write(lines);
    return verify().problem;
  };

  auto changed = good;
  changed[2].replace(changed[2].find("\"x\""), 3, "\"y\"");
  EXPECT_THAT(told(changed), HasSubstr(":3: record 3 was changed"));
  auto removed = good;
  removed.erase(removed.begin() + 2);
  EXPECT_THAT(told(removed), HasSubstr(":3: record 4 follows record 2: those between are missing"));
  auto swapped = good;
  std::swap(swapped[1], swapped[2]);
  EXPECT_THAT(told(swapped), HasSubstr(":2: record 3 follows record 1"));
  auto doubled = good;
  doubled.insert(doubled.begin() + 2, doubled[1]);
  EXPECT_THAT(told(doubled), HasSubstr(":3: record 2 follows record 2"));
  auto added = good;
  added.insert(added.begin() + 1, "hello");
  EXPECT_THAT(told(added), HasSubstr(":2: is no record"));
  auto forged = good;  // with a hash of its own, as anyone can make it
  AuditHead head{.sequence = 2, .hash = std::string(64, 'a')};
  forged[2] = audit_line(head, 0, R"("event":"y")", "");
  forged[2].pop_back();
  EXPECT_THAT(told(forged), HasSubstr(":3: record 3 does not continue record 2"));
  auto beginning = good;
  beginning.erase(beginning.begin());
  write(beginning);
  EXPECT_EQ(verify().problem, "");
  EXPECT_THAT(verify().notes, ::testing::ElementsAre(HasSubstr("begins with record 2")));
}

TEST_F(Audit, CutEndDoesNotShowButItsHashDiffers) {
  AuditFile file = open();
  append(file, 3);
  auto lines = lines_of(path_);
  lines.pop_back();

  write(lines);

  EXPECT_EQ(verify().problem, "");
  EXPECT_NE(verify().last_hash, file.head().hash);
}

TEST_F(Audit, CutEndShowsOnceTheProcessGoesOn) {
  AuditFile file = open();
  append(file, 3);
  auto lines = lines_of(path_);
  lines.pop_back();
  write(lines);

  append(file);

  EXPECT_THAT(verify().problem, HasSubstr(":3: record 4 follows record 2"));
}

TEST_F(Audit, KeyIsNeededToVerify) {
  AuditFile file = open("0123456789abcdef");

  append(file, 2);

  EXPECT_EQ(verify("0123456789abcdef").problem, "");
  EXPECT_THAT(verify().problem, HasSubstr("--key-file"));
  EXPECT_THAT(verify("another key, as long").problem, HasSubstr("another key"));
}

TEST_F(Audit, RecordThatAKilledProcessHasCutIsFollowedByTheNext) {
  {
    AuditFile file = open();
    append(file, 3);
  }
  auto lines = lines_of(path_);
  for (const std::size_t kept : {std::size_t{1}, lines[2].size() / 2, lines[2].size() - 1}) {
    write({lines[0], lines[1]}, lines[2].substr(0, kept));
    EXPECT_EQ(verify().problem, "");
    EXPECT_THAT(verify().notes, ::testing::ElementsAre(HasSubstr(":3: the last line")));

    AuditFile file = open();
    append(file);

    EXPECT_EQ(verify().problem, "") << kept;
    EXPECT_EQ(file.head().sequence, 3u);
    EXPECT_THAT(verify().notes, ::testing::ElementsAre(HasSubstr(":3: ")));
    auto with_more = lines_of(path_);
    with_more[2] += "x";
    write(with_more);
    EXPECT_THAT(verify().problem, HasSubstr(":3: is no record"));
  }
}

TEST_F(Audit, OnlyAnIntactRecordIsContinued) {
  {
    AuditFile file = open();
    append(file, 3);
  }
  const auto good = lines_of(path_);
  auto forged = good[2];
  forged.replace(forged.find("\"seq\":3"), 7, "\"seq\":9");
  AuditHead last{.sequence = std::numeric_limits<std::uint64_t>::max() - 1,
                 .hash = std::string(64, 'a')};
  auto highest = audit_line(last, 0, R"("event":"x")", "");
  highest.pop_back();
  for (const std::string& line : {forged, highest}) {
    write({good[0], good[1], good[2], line});

    AuditFile file = open();
    append(file);

    EXPECT_EQ(file.head().sequence, 4u);
    EXPECT_THAT(verify().problem, HasSubstr(":4: record "));
  }
}

TEST_F(Audit, RecordsOfAnotherKeyAreNotContinued) {
  {
    AuditFile file = open("0123456789abcdef");
    append(file, 2);
  }

  const auto file = AuditFile::open(path_, "another key, as long");

  ASSERT_FALSE(file);
  EXPECT_THAT(file.error().detail, HasSubstr("written with another key"));
  std::filesystem::rename(path_, path_ + ".1");
  AuditFile next = open("another key, as long");
  append(next);
  EXPECT_EQ(next.head().sequence, 1u);
}

TEST_F(Audit, RecordThatLacksItsLineEndOnlyCounts) {
  {
    AuditFile file = open();
    append(file, 3);
  }
  auto lines = lines_of(path_);
  write({lines[0], lines[1]}, lines[2]);

  AuditFile file = open();
  append(file);

  EXPECT_EQ(verify().problem, "");
  EXPECT_EQ(verify().records, 4u);
}

TEST_F(Audit, FileThatWasMovedIsContinued) {
  AuditFile one = open();
  AuditFile other = open();
  append(one, 2);
  append(other);
  const std::string moved = path_ + ".1";

  std::filesystem::rename(path_, moved);
  append(one);
  append(other);
  append(one);

  const AuditVerdict verdict = verify_audit_files({moved, path_}, "");
  EXPECT_EQ(verdict.problem, "");
  EXPECT_EQ(verdict.records, 6u);
  EXPECT_EQ(lines_of(path_).size(), 3u);
  EXPECT_THAT(verify().notes, ::testing::ElementsAre(HasSubstr("begins with record 4")));
  EXPECT_THAT(verify_audit_files({path_, moved}, "").problem, HasSubstr(".1:1: record 1 follows"));
}

TEST_F(Audit, NothingButAFileTakesThePlaceOfAMovedOne) {
  AuditFile file = open();
  append(file, 2);
  const std::string moved = path_ + ".1";
  std::filesystem::rename(path_, moved);
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);

  EXPECT_EQ(file.append(R"("event":"x")"), EMEDIUMTYPE);

  std::filesystem::remove(path_);
  append(file);
  EXPECT_EQ(verify_audit_files({moved, path_}, "").records, 3u);
}

TEST_F(Audit, FileThatWasMovedWhileNoProcessRanIsContinued) {
  {
    AuditFile file = open();
    append(file, 2);
  }
  const std::string moved = path_ + "-20261129";
  std::filesystem::rename(path_, moved);

  AuditFile file = open();
  append(file);

  EXPECT_EQ(verify_audit_files({moved, path_}, "").records, 3u);
}

TEST_F(Audit, RecordsOfManyThreadsAreOneChain) {
  auto log = AuditLog::open(path_, "");
  ASSERT_TRUE(log);
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&log] {
        for (int j = 0; j < 50; ++j) (*log)->record("x", {{"text", std::string(2000, '"')}});
      });
    }
  }

  log->reset();

  EXPECT_EQ(verify().problem, "");
  EXPECT_EQ(verify().records, 200u);
  for (const std::string& line : lines_of(path_)) EXPECT_LT(line.size(), 2000u);
}

TEST_F(Audit, RefusalsBeyondTheRateAreCounted) {
  auto log = AuditLog::open(path_, "");
  ASSERT_TRUE(log);
  int admitted = 0;

  for (int i = 0; i < 500; ++i) {
    if ((*log)->admits(AuditRefusal::unauthorized)) {
      ++admitted;
      (*log)->record("refused", {});
    }
  }
  log->reset();

  EXPECT_GE(admitted, AuditLog::refusals_per_second);
  EXPECT_LT(admitted, 500);
  const auto lines = lines_of(path_);
  EXPECT_THAT(lines.back(), HasSubstr("\"unauthorized\":" + std::to_string(500 - admitted) + ","));
  EXPECT_EQ(verify().problem, "");
}

TEST_F(Audit, RefusalsOfOneKindHideNoOthers) {
  auto log = AuditLog::open(path_, "");
  ASSERT_TRUE(log);

  for (int i = 0; i < 500; ++i) static_cast<void>((*log)->admits(AuditRefusal::unauthorized));

  EXPECT_TRUE((*log)->admits(AuditRefusal::admin));
  EXPECT_TRUE((*log)->admits(AuditRefusal::model_not_allowed));
}

TEST_F(Audit, RecordsThatClientsCauseLeaveRoomForThoseOfOperators) {
  auto log = AuditLog::open(path_, "");
  ASSERT_TRUE(log);
  std::filesystem::remove(path_);
  std::filesystem::create_directory(path_);  // it cannot be opened

  for (int i = 0; i < 3000; ++i)
    (*log)->record("refused", {{"text", std::string(500, 'x')}}, AuditCause::clients);
  const std::uint64_t lost = (*log)->lost();
  (*log)->record("admin", {});
  EXPECT_GT(lost, 0u);
  EXPECT_EQ((*log)->lost(), lost);
  std::filesystem::remove(path_);
  log->reset();

  const auto lines = lines_of(path_);
  ASSERT_GT(lines.size(), 2u);
  EXPECT_THAT(lines[lines.size() - 2], HasSubstr("\"event\":\"admin\""));
  EXPECT_EQ(verify().problem, "");
}

TEST_F(Audit, RecordsWaitForAFileThatCannotBeWrittenAndLostOnesAreCounted) {
  auto log = AuditLog::open(path_, "");
  ASSERT_TRUE(log);
  std::filesystem::remove(path_);
  std::filesystem::create_directory(path_);  // it cannot be opened

  for (int i = 0; i < 3000; ++i) (*log)->record("x", {{"text", std::string(500, 'x')}});
  const std::uint64_t lost = (*log)->lost();
  std::filesystem::remove(path_);
  log->reset();

  EXPECT_GT(lost, 0u);
  const auto lines = lines_of(path_);
  EXPECT_EQ(lines.size(), 3000 - lost + 1);
  EXPECT_THAT(lines.back(),
              HasSubstr("\"event\":\"records_lost\",\"count\":" + std::to_string(lost)));
  EXPECT_EQ(verify().problem, "");
}

TEST_F(Audit, KeyIsNewOnce) {
  auto log = AuditLog::open(path_, "");
  ASSERT_TRUE(log);

  EXPECT_TRUE((*log)->is_first_use("acme 0011"));
  EXPECT_FALSE((*log)->is_first_use("acme 0011"));
  EXPECT_TRUE((*log)->is_first_use("beta 0011"));
}

}  // namespace
}  // namespace evenkeel
