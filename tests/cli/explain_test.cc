#include "cli/explain.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "evenkeel/base/exit_codes.h"
#include "evenkeel/base/fault_table.h"

namespace evenkeel {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string content(const std::filesystem::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(Explain, PrintsWhatAReasonMeansWithItsStatusCauseAndCure) {
  const CommandOutput output = explain_command("queue_full", 80);

  EXPECT_EQ(output.exit_code, exit_done);
  EXPECT_THAT(output.out, testing::StartsWith("queue_full (status 429, side proxy)\n"));
  EXPECT_THAT(output.out, HasSubstr("\nMeaning: All slots"));
  EXPECT_THAT(output.out, HasSubstr("\nCause:   "));
  EXPECT_THAT(output.out, HasSubstr("\nSee:     docs/observability.md#requests-wait\n"));
}

TEST(Explain, KeepsLinesWithinTheWidth) {
  for (const FaultEntry& entry : fault_table()) {
    std::istringstream lines(explain_command(entry.word, 100).out);
    for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 100U) << line;
  }
}

TEST(Explain, ListsEveryReasonWithoutAWord) {
  const CommandOutput output = explain_command("", 80);
  for (const FaultEntry& entry : fault_table()) EXPECT_THAT(output.out, HasSubstr(entry.word));
}

TEST(Explain, NamesTheNearestReasonAndAllOthers) {
  const CommandOutput output = explain_command("que_full", 80);

  EXPECT_EQ(output.exit_code, exit_usage);
  EXPECT_EQ(output.out, "");
  EXPECT_THAT(output.err, HasSubstr("no reason is called 'que_full'; did you mean 'queue_full'?"));
  EXPECT_THAT(output.err, HasSubstr("no_backend, "));
}

TEST(Explain, SendsARequestIdToTheVerbThatExplainsRequests) {
  EXPECT_THAT(explain_command("01a21fc3-86a0-761f-8fc9-69c72a2d0ffe", 80).err,
              HasSubstr("evenkeel ctl explain 01a21fc3-86a0-761f-8fc9-69c72a2d0ffe"));
}

TEST(Explain, ReplacesControlCharactersOfTheWord) {
  EXPECT_THAT(explain_command("a\x1b[2Jb", 80).err, Not(HasSubstr("\x1b")));
}

TEST(Explain, ThePageIsTheCommittedOne) {
  EXPECT_EQ(content(std::filesystem::path(EVENKEEL_SOURCE_DIR) / "docs/reasons.md"), reasons_page())
      << "run: evenkeel explain --page > docs/reasons.md";
}

}  // namespace
}  // namespace evenkeel
