// The table of engines as a whole: every entry is complete, and config accepts exactly their names.
#include "evenkeel/inference/engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "evenkeel/config/config.h"
#include "evenkeel/inference/engine_metrics.h"
#include "inference/recorded.h"

namespace evenkeel {
namespace {

using testing::UnorderedElementsAreArray;

std::vector<std::string> table_names() {
  std::vector<std::string> names;
  for (const Engine* engine : engines()) names.emplace_back(engine->name);
  return names;
}

TEST(Engines, AreThoseThatTheFileAcceptsBesidesAuto) {
  std::vector<std::string> names = table_names();
  names.emplace_back(undetected_engine);

  EXPECT_THAT(engine_names(), UnorderedElementsAreArray(names));
}

TEST(Engines, AreFoundByName) {
  for (const Engine* engine : engines()) EXPECT_EQ(&engine_named(engine->name), engine);
  EXPECT_EQ(engine_named("a name of no engine").name, "generic");
  EXPECT_EQ(engine_named(undetected_engine).name, "generic");
  EXPECT_EQ(engine_named(engine_of_server("generic", true).name).name, "generic");
  EXPECT_EQ(engine_of_server("vllm", true).name, "vllm");
}

TEST(Engines, AreFoundByNumber) {
  for (const Engine* engine : engines()) EXPECT_EQ(&engine_numbered(number_of(*engine)), engine);
  EXPECT_EQ(number_of(engine_named("generic")), 0);
  EXPECT_EQ(number_of(engine_of_server("generic", true)), 0);
  EXPECT_EQ(engine_numbered(255).name, "generic");
}

TEST(Engines, CanAllBeDetectedButGeneric) {
  for (const Engine* engine : engines()) {
    EXPECT_EQ(engine->detection.rules.empty(), engine->name == "generic") << engine->name;
    for (const EvidenceRule& rule : engine->detection.rules) EXPECT_FALSE(rule.evidence.empty());
  }
}

TEST(Engines, HaveAPageForTheirSeries) {
  for (const Engine* engine : engines()) {
    const EngineMetricsPage& page = engine->metrics;
    if (page.any_series) continue;
    EXPECT_FALSE(page.path.empty()) << engine->name;
    EXPECT_FALSE(is_consumed_by_scrape(*engine, page.path)) << engine->name;
  }
}

TEST(Engines, HaveTheNamesOfTheRecordedPages) {
  for (const auto& recorded : all_recorded()) {
    EXPECT_EQ(engine_named(recorded.first).name, recorded.first);
  }
}

}  // namespace
}  // namespace evenkeel
