#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "config/test_environment.h"

namespace evenkeel {
namespace {

using testing::IsEmpty;

std::string content_of(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream{path}.rdbuf();
  return text.str();
}

std::vector<std::filesystem::path> samples() {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator{EVENKEEL_SOURCE_DIR "/config"}) {
    if (entry.path().extension() == ".yaml") files.push_back(entry.path());
  }
  return files;
}

TEST(Samples, AreValid) {
  ASSERT_GE(samples().size(), 5u);
  for (const auto& file : samples()) {
    const auto loaded = load_config(file, TestEnvironment{}.environment());
    EXPECT_THAT(lines_of(loaded.problems), IsEmpty()) << file;
    EXPECT_THAT(lines_of(loaded.warnings), IsEmpty()) << file;
  }
}

TEST(Samples, BeginWithTheirSchema) {
  for (const auto& file : samples()) {
    EXPECT_TRUE(
        content_of(file).starts_with("# yaml-language-server: $schema=evenkeel.schema.json\n"))
        << file;
  }
}

TEST(PrintedConfig, RoundTrips) {
  for (const auto& file : samples()) {
    const Config config = load_config(file, TestEnvironment{}.environment()).config;
    for (const bool with_defaults : {false, true}) {
      const std::string printed = print_config(config, with_defaults);
      const auto again = read(printed);

      EXPECT_THAT(lines_of(again.problems), IsEmpty()) << printed;
      EXPECT_EQ(again.config, config) << printed;
    }
  }
}

TEST(PrintedConfig, OmitsDefaults) {
  const auto config = read(
                          "workers: auto\nadmin: {address: 127.0.0.1:9901}\n"
                          "pools: [{name: a, engine: ray, picker: least-connections,"
                          " keep_alive: {idle: 60s, max_idle: 9}, backends: [http://h:1]}]\n"
                          "routes: [{name: default, pool: a}]\n")
                          .config;

  EXPECT_EQ(print_config(config, false),
            "pools:\n"
            "  - name: a\n"
            "    engine: ray\n"
            "    backends: [h:1]\n"
            "    keep_alive:\n"
            "      max_idle: 9\n");
}

TEST(PrintedConfig, HasThePickersOwnSettings) {
  const auto printed = [](const std::string& picker, bool with_defaults) {
    const auto config =
        read("pools: [{name: a, picker: " + picker + ", backends: [h:1]}]\n").config;
    const std::string text = print_config(config, with_defaults);
    EXPECT_EQ(read(text).config, config) << text;
    const std::size_t begin = text.find("    picker:");
    return begin == text.npos ? "" : text.substr(begin, text.find("    backends:") - begin);
  };

  EXPECT_EQ(printed("{name: least-connections}", true), "    picker: least-connections\n");
  EXPECT_EQ(printed("{name: gpu, memory_guard: 0.95}", false), "    picker: gpu\n");
  EXPECT_EQ(printed("gpu", true), "    picker:\n      name: gpu\n      memory_guard: 0.95\n");
  EXPECT_EQ(printed("{name: expected-time, shadow_picker: gpu, slo: {ttft: 2s}}", false),
            "    picker:\n      name: expected-time\n      slo:\n        ttft: 2s\n"
            "      shadow_picker: gpu\n");
}

TEST(PrintedConfig, QuotesAmbiguousScalars) {
  for (const std::string model :
       {"true", "null", "12",   "1e3",  "off", "a: b",       "- a", "# a", "a #b", "${A}",
        "$$",   "[a",   "{",    "*a",   "&a",  "!a",         "\"",  "'",   "\\",   "é",
        " a ",  "a\nb", "1:30", "0x1f", ".5",  "2024-01-01", "~",   "<<"}) {
    Config config = read("pools: [{name: a, backends: [h:1]}]\n").config;
    config.pools[0].models = {model};
    config.pools[0].backends[0].labels = {{model, model}};

    const auto again = read(print_config(config, false));

    EXPECT_THAT(lines_of(again.problems), IsEmpty()) << model;
    EXPECT_EQ(again.config, config) << model;
  }
}

TEST(Schema, MatchesTheRepository) {
  EXPECT_EQ(content_of(EVENKEEL_SOURCE_DIR "/config/evenkeel.schema.json"), config_schema())
      << "stale: run `evenkeel config schema > config/evenkeel.schema.json`";
}

TEST(Reference, MatchesTheRepository) {
  EXPECT_EQ(content_of(EVENKEEL_SOURCE_DIR "/docs/configuration.md"), config_reference())
      << "stale: run `evenkeel config reference > docs/configuration.md`";
}

}  // namespace
}  // namespace evenkeel
