#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "discovery/kubernetes_api.h"
#include "discovery/srv_records.h"
#include "evenkeel/config/address.h"
#include "evenkeel/config/backend_list.h"
#include "evenkeel/discovery/discovery.h"

namespace evenkeel {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::vector<std::string> texts(const std::vector<BackendConfig>& backends) {
  std::vector<std::string> list;
  for (const BackendConfig& each : backends)
    list.push_back(to_string(each.address) + " " + std::to_string(each.weight));
  return list;
}

TEST(SrvRecords, OnlyTheLowestPriorityNumberCounts) {
  const auto backends = backends_of({{.host = "b", .port = 2, .priority = 20, .weight = 5},
                                     {.host = "a", .port = 1, .priority = 10, .weight = 5},
                                     {.host = "c", .port = 3, .priority = 10, .weight = 0}});

  EXPECT_THAT(texts(backends), ElementsAre("a:1 5", "c:3 1"));
}

TEST(SrvRecords, LargeWeightsShrinkTogether) {
  const auto backends = backends_of(
      {{.host = "a", .port = 1, .weight = 60000}, {.host = "b", .port = 2, .weight = 30000}});

  EXPECT_THAT(texts(backends), ElementsAre("a:1 1000", "b:2 500"));
}

TEST(SrvRecords, NoneAreNoBackends) {
  EXPECT_THAT(backends_of(std::vector<Resolver::Service>()), IsEmpty());
}

TEST(WatchLine, IsWholeWhereverItsBytesAreCut) {
  const std::string text = "{\"a\": 1}\n{\"b\": 2}\n\n{\"c\"";
  for (std::size_t cut = 0; cut <= text.size(); ++cut) {
    WatchLines lines;
    std::vector<std::string> found;
    for (const std::string& piece : {text.substr(0, cut), text.substr(cut)}) {
      ASSERT_TRUE(lines.add(piece));
      while (const auto line = lines.next()) found.emplace_back(*line);
    }
    EXPECT_THAT(found, ElementsAre("{\"a\": 1}", "{\"b\": 2}", "")) << cut;
  }
}

TEST(WatchLine, HasAnEnd) {
  WatchLines lines;
  EXPECT_TRUE(lines.add(std::string(WatchLines::max_line, 'x')));
  EXPECT_FALSE(lines.add("x"));
}

TEST(BackendLists, TakeTargetsOfPrometheus) {
  const auto list = read_backend_list(
      R"([{"targets": ["10.0.0.1:8000", "[fd00::1]:8000"], "labels": {"gpu": "h100", "__meta_x": "y"}},
          {"targets": ["llama.test:443"],
           "labels": {"__scheme__": "https", "__zone__": "eu", "__weight__": "3"}}])",
      BackendListKind::targets);

  ASSERT_TRUE(list) << list.error().detail;
  EXPECT_THAT(texts(*list), ElementsAre("10.0.0.1:8000 1", "[fd00::1]:8000 1", "llama.test:443 3"));
  EXPECT_EQ((*list)[0].labels, (BackendLabels{{"gpu", "h100"}}));
  EXPECT_TRUE((*list)[2].address.secure);
  EXPECT_EQ((*list)[2].zone, "eu");
}

TEST(BackendLists, InFilesMayHaveBackendsAsThePoolHasThem) {
  const auto list = read_backend_list(
      "- http://10.0.0.1:8000\n- {address: 10.0.0.2:8000, weight: 2, labels: {gpu: a100}}\n",
      BackendListKind::any);

  ASSERT_TRUE(list) << list.error().detail;
  EXPECT_THAT(texts(*list), ElementsAre("10.0.0.1:8000 1", "10.0.0.2:8000 2"));
}

TEST(BackendLists, FromElsewhereHaveTargetsOnly) {
  EXPECT_FALSE(read_backend_list("[{address: 10.0.0.1:8000, api_key_file: /etc/shadow}]",
                                 BackendListKind::targets));
}

TEST(BackendLists, MayBeEmptyButNotNothing) {
  const auto empty = read_backend_list("[]", BackendListKind::targets);
  ASSERT_TRUE(empty);
  EXPECT_THAT(*empty, IsEmpty());
  EXPECT_FALSE(read_backend_list("", BackendListKind::any));
}

TEST(BackendLists, SayWhereTheirFirstMistakeIs) {
  const auto list = read_backend_list("- targets: [10.0.0.1]\n", BackendListKind::targets);

  ASSERT_FALSE(list);
  EXPECT_THAT(list.error().detail, HasSubstr("1:"));
  EXPECT_THAT(list.error().detail, HasSubstr("'10.0.0.1' is no target"));
  for (const std::string wrong : {"{", "no list", "{\"targets\": []}", "[1, 2]", "\xff"})
    EXPECT_FALSE(read_backend_list(wrong, BackendListKind::targets)) << wrong;
}

TEST(BackendLists, FillInNoVariables) {
  setenv("EVENKEEL_TEST_SECRET", "s3cret", 1);
  const auto list =
      read_backend_list("[{targets: ['10.0.0.1:1'], labels: {a: '${EVENKEEL_TEST_SECRET}'}}]",
                        BackendListKind::targets);
  EXPECT_FALSE(list);
}

TEST(FoundBackendsOfAPool, StandBesideThoseOfTheFile) {
  auto config = std::make_shared<Config>();
  config->pools.resize(2);
  config->pools[0].name = "llama";
  config->pools[0].discover.emplace().file = "x.yaml";
  config->pools[0].backends = {{.address = {.host = "a", .port = 1}, .weight = 7}};
  config->pools[1].name = "fixed";
  FoundBackends found;
  found["llama"] = {{.address = {.host = "b", .port = 2}}, {.address = {.host = "a", .port = 1}}};
  found["fixed"] = found["llama"];

  const auto all = with_found(config, found);

  EXPECT_THAT(texts(all->pools[0].backends), ElementsAre("a:1 7", "b:2 1"));
  EXPECT_THAT(all->pools[1].backends, IsEmpty());
}

TEST(FoundBackendsOfAPool, AreNoneWithoutDiscover) {
  const auto config = std::make_shared<const Config>();
  EXPECT_EQ(with_found(config, {}), config);
}

}  // namespace
}  // namespace evenkeel
