#include "cli/check_running.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <string>
#include <variant>

#include "cli/admin_target.h"

namespace evenkeel {
namespace {

using testing::HasSubstr;

const CheckOptions options{.file = "a.yaml"};

LoadResult loaded(const std::string& more = "") {
  return read_config("pools: [{name: a, backends: [h:1]}]\n" + more, "a.yaml", {});
}

TEST(CheckRunning, ListsWhatAReloadWouldChange) {
  const auto some =
      report_preview(options, loaded(), 200,
                     R"({"problems": [], "changes": ["pool a: backend h:1 added\u001b"]})");
  const auto none = report_preview(options, loaded(), 200, R"({"problems": [], "changes": []})");

  EXPECT_EQ(some.exit_code, 0);
  EXPECT_EQ(some.out, "a.yaml: ok, a reload would change this:\n  pool a: backend h:1 added?\n");
  EXPECT_EQ(none.out, "a.yaml: ok, a reload would change nothing\n");
}

TEST(CheckRunning, SaysThatAReloadWouldStartAnotherProcess) {
  const auto output = report_preview(
      options, loaded(), 200,
      R"({"problems": [], "changes": ["workers: 2 -> 3"], "takeover": ["workers", "access_log"]})");

  EXPECT_EQ(output.exit_code, 0);
  EXPECT_EQ(output.out,
            "a.yaml: ok, a reload would change this:\n  workers: 2 -> 3\n"
            "workers, access_log cannot change in a running process: a reload would start another "
            "one, which takes over\n");
}

TEST(CheckRunning, ListsWhyAReloadWouldBeRejected) {
  const auto output =
      report_preview(options, loaded(), 200,
                     R"({"problems": [{"file": "b.yaml", "line": 0, "column": 0, "path": "workers",
          "message": "cannot change", "help": "restart", "severity": "error"}], "changes": []})");

  EXPECT_EQ(output.exit_code, 1);
  EXPECT_EQ(output.out, "");
  EXPECT_EQ(output.err,
            "a reload would be rejected:\nb.yaml: error: workers: cannot change; restart\n");
}

TEST(CheckRunning, JsonHoldsWarningsOfTheFileAndProblemsOfTheDaemon) {
  const auto output = report_preview(
      {.file = "a.yaml", .json = true}, loaded("routes: [{match: {path: /v1/}, pool: a}]\n"), 200,
      R"({"problems": [{"message": "no", "severity": "error"}], "changes": ["c"], "takeover": [],
          "unchecked": ["/k"]})");

  EXPECT_EQ(output.exit_code, 1);
  EXPECT_THAT(output.out,
              HasSubstr(R"("severity":"warning"},{"message":"no","severity":"error"}])"));
  EXPECT_THAT(output.out, HasSubstr(R"("changes":["c"],"takeover":[],"unchecked":["/k"]})"));
}

TEST(CheckRunning, ReportsWhatIsNotAnAnswer) {
  EXPECT_EQ(report_preview(options, loaded(), 200, "<html>").exit_code, 5);
  EXPECT_EQ(report_preview(options, loaded(), 502, "{}").exit_code, 5);
  const auto refused = report_preview(options, loaded(), 403, R"({"error": "no token"})");
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_EQ(refused.err, "evenkeel check: no token\n");
}

TEST(AdminTarget, TakesWhatIsNotGivenFromTheFile) {
  Config config;
  config.admin = {.address = {"10.0.0.1", 9000}, .token_file = "/token"};

  EXPECT_EQ(completed({}, config).address, "10.0.0.1:9000");
  EXPECT_EQ(completed({}, config).token_file, "/token");
  EXPECT_EQ(completed({.address = "h:1", .token_file = "t"}, config).address, "h:1");
  EXPECT_EQ(completed({.address = "h:1", .token_file = "t"}, config).token_file, "t");
  EXPECT_EQ(completed({}, {}).address, "127.0.0.1:9901");
}

TEST(AdminTarget, SpeaksTlsWhereTheFileSaysSo) {
  Config config;
  config.admin = {.address = {"10.0.0.1", 9000}, .tls = ListenerTlsConfig{}};

  EXPECT_EQ(completed({}, config).address, "https://10.0.0.1:9000");
  EXPECT_EQ(completed({.address = "h:1"}, config).address, "https://h:1");
  EXPECT_EQ(completed({.address = "http://h:1"}, config).address, "http://h:1");
}

TEST(AdminTarget, MaySpeakEitherSchemeWhereOnlyTheFileNamesOne) {
  EXPECT_TRUE(completed({}, {}).either_scheme);
  EXPECT_TRUE(completed({.address = "h:1"}, {}).either_scheme);
  EXPECT_FALSE(completed({.address = "http://h:1"}, {}).either_scheme);
  EXPECT_FALSE(std::get<FoundTarget>(find_target({}, "")).target.either_scheme)
      << "there is no file";
}

/// A file that is removed with this object.
struct ConfigFile {
  explicit ConfigFile(const std::string& text)
      : path(::testing::TempDir() + "target-" + std::to_string(getpid()) + ".yaml") {
    std::ofstream(path) << text;
  }
  ~ConfigFile() { std::remove(path.c_str()); }
  std::string path;
};

TEST(AdminTarget, IsFoundInAFileWithMistakesElsewhere) {
  const ConfigFile file("admin: {address: '10.0.0.1:9000'}\npools: [{name: a, backends: []}]\n");

  const auto found = find_target({}, file.path);

  ASSERT_TRUE(std::holds_alternative<FoundTarget>(found));
  EXPECT_EQ(std::get<FoundTarget>(found).target.address, "10.0.0.1:9000");
  EXPECT_EQ(std::get<FoundTarget>(found).doubt, "");
}

TEST(AdminTarget, IsAGuessWhereMistakesMayHideIt) {
  std::string more_mistakes_than_are_listed;
  for (int i = 0; i < 150; ++i)
    more_mistakes_than_are_listed += "unknown_" + std::to_string(i) + ": 1\n";
  more_mistakes_than_are_listed += "admin: {address: what}\n";
  for (const char* text : {"admin: {address: what}\npools: [{name: a, backends: ['h:1']}]\n",
                           "pools: [{name: a, backends: ['h:1'\nadmin: {address: '10.0.0.1:9'}\n",
                           more_mistakes_than_are_listed.c_str()}) {
    const ConfigFile file(text);
    const auto found = find_target({}, file.path);
    ASSERT_TRUE(std::holds_alternative<FoundTarget>(found)) << text;
    EXPECT_THAT(std::get<FoundTarget>(found).doubt, HasSubstr("error: ")) << text;
    const auto given = find_target({.address = "h:1"}, file.path);
    EXPECT_EQ(std::get<FoundTarget>(given).doubt, "") << text;
  }
  EXPECT_TRUE(std::holds_alternative<CommandOutput>(find_target({}, "/nowhere.yaml")));
}

}  // namespace
}  // namespace evenkeel
