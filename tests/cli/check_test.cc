#include "cli/check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

namespace evenkeel {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

std::string written(const std::string& name, const std::string& text) {
  const std::string path = testing::TempDir() + std::to_string(getpid()) + name;
  std::ofstream(path) << text;
  return path;
}

TEST(CheckCommand, ExitsWithOneForAFileThatCannotBeRead) {
  const auto missing = check_command({.file = "/nonexistent/evenkeel.yaml"}, {});
  const auto directory = check_command({.file = "/"}, {});

  EXPECT_EQ(missing.exit_code, 1);
  EXPECT_EQ(missing.err,
            "/nonexistent/evenkeel.yaml: error: cannot be read: No such file or directory\n");
  EXPECT_EQ(directory.exit_code, 1);
  EXPECT_THAT(directory.err, HasSubstr("Is a directory"));
}

TEST(CheckCommand, ExitsWithZeroForAValidFile) {
  const std::string file = EVENKEEL_SOURCE_DIR "/config/minimal.yaml";
  const auto plain = check_command({.file = file}, {});
  const auto json = check_command({.file = file, .json = true}, {});

  EXPECT_EQ(plain.exit_code, 0);
  EXPECT_EQ(plain.out, file + ": ok\n");
  EXPECT_EQ(plain.err, "");
  EXPECT_EQ(json.exit_code, 0);
  EXPECT_EQ(json.out, "[]\n");
}

TEST(CheckCommand, PrintsWarningsAndExitsWithZero) {
  const std::string file = written("warned.yaml",
                                   "pools: [{name: a, backends: [h:1]}]\n"
                                   "routes: [{match: {path: /v1/}, pool: a}]\n");
  const auto plain = check_command({.file = file}, {});
  const auto json = check_command({.file = file, .json = true}, {});

  EXPECT_EQ(plain.exit_code, 0);
  EXPECT_THAT(plain.err, StartsWith(file + ":2:25: warning: routes[0].match.path: "));
  EXPECT_EQ(json.exit_code, 0);
  EXPECT_THAT(json.out, HasSubstr("\"severity\": \"warning\""));
}

TEST(CheckCommand, TakesWarningsForErrorsIfItIsStrict) {
  const std::string file = written("strict.yaml",
                                   "pools: [{name: a, backends: [h:1]}]\n"
                                   "routes: [{match: {path: /v1/}, pool: a}]\n");
  const auto plain = check_command({.file = file, .strict = true}, {});
  const auto json = check_command({.file = file, .json = true, .strict = true}, {});

  EXPECT_EQ(plain.exit_code, 1);
  EXPECT_EQ(plain.out, "");
  EXPECT_THAT(plain.err, StartsWith(file + ":2:25: error: routes[0].match.path: "));
  EXPECT_EQ(json.exit_code, 1);
  EXPECT_THAT(json.out, HasSubstr("\"severity\": \"error\""));

  const std::string good = EVENKEEL_SOURCE_DIR "/config/minimal.yaml";
  EXPECT_EQ(check_command({.file = good, .strict = true}, {}).exit_code, 0);
}

}  // namespace
}  // namespace evenkeel
