#include "evenkeel/config/changes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "evenkeel/config/load.h"

namespace evenkeel {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

Config read(const std::string& text) {
  LoadResult loaded = read_config(text, "test.yaml", {});
  EXPECT_TRUE(loaded.ok()) << render_problems(loaded.problems, text);
  return std::move(loaded.config);
}

std::vector<std::string> changes(const std::string& before, const std::string& after) {
  return describe_changes(read(before), read(after));
}

const std::string one_pool = "pools: [{name: chat, backends: ['10.0.0.1:80', '10.0.0.2:80']}]\n";

TEST(DescribeChanges, SaysNothingOfEqualConfigurations) {
  EXPECT_THAT(changes(one_pool, one_pool), IsEmpty());
}

TEST(DescribeChanges, NamesBackendsThatComeAndGo) {
  EXPECT_THAT(changes(one_pool, "pools: [{name: chat, backends: ['10.0.0.2:80', '10.0.0.3:80']}]"),
              ElementsAre("pool chat: backend 10.0.0.3:80: added",
                          "pool chat: backend 10.0.0.1:80: removed"));
}

TEST(DescribeChanges, GivesBothValuesOfAKey) {
  EXPECT_THAT(changes(one_pool,
                      "pools: [{name: chat, limits: {max_in_flight: 8, queue: {timeout: 5s}},\n"
                      "         backends: ['10.0.0.1:80', {address: '10.0.0.2:80', weight: 3}]}]"),
              ElementsAre("pool chat: backend 10.0.0.2:80: weight: 1 -> 3",
                          "pool chat: limits.max_in_flight: 0 -> 8",
                          "pool chat: limits.queue.timeout: 30s -> 5s"));
}

TEST(DescribeChanges, SaysUnsetOfAKeyThatOneSideLacks) {
  EXPECT_THAT(changes(one_pool,
                      "pools: [{name: chat, models: [a, b],\n"
                      "         backends: [{address: '10.0.0.1:80', zone: x}, '10.0.0.2:80']}]"),
              ElementsAre("pool chat: models: [] -> [a, b]",
                          "pool chat: backend 10.0.0.1:80: zone: unset -> x"));
}

TEST(DescribeChanges, ComparesTheSettingsOfOnePicker) {
  const auto with = [](const std::string& picker) {
    return "pools: [{name: chat, backends: ['10.0.0.1:80'], picker: " + picker + "}]";
  };
  EXPECT_THAT(changes(with("{name: gpu, memory_guard: 0.8}"), with("gpu")),
              ElementsAre("pool chat: picker.memory_guard: 0.8 -> 0.95"));
  EXPECT_THAT(changes(with("gpu"), with("{name: weighted, weights: observed}")),
              ElementsAre("pool chat: picker: {name: gpu, memory_guard: 0.95} -> {name: weighted, "
                          "weights: observed}"));
  EXPECT_THAT(changes(with("round-robin"), with("least-connections")),
              ElementsAre("pool chat: picker: round-robin -> least-connections"));
}

TEST(DescribeChanges, NamesListenersPoolsAndRoutes) {
  const std::string after =
      "listeners: [{name: inner, address: '127.0.0.1:81'}]\n"
      "pools: [{name: chat, backends: ['10.0.0.1:80', '10.0.0.2:80']},\n"
      "        {name: embed, backends: ['10.0.0.9:80']}]\n"
      "routes: [{name: e, match: {path: /e}, pool: embed}, {name: default, pool: chat}]\n"
      "shutdown: {drain: 30s}\n";
  EXPECT_THAT(changes(one_pool, after),
              ElementsAre("listener inner: added", "listener public: removed", "pool embed: added",
                          "route e: added", "shutdown.drain: 120s -> 30s"));
}

TEST(DescribeChanges, SeesThatTheOrderOfRoutesChanged) {
  const std::string pools = "pools: [{name: chat, backends: ['10.0.0.1:80']}]\n";
  const std::string a = "{name: a, match: {path: /a}, pool: chat}";
  const std::string b = "{name: b, match: {path: /b}, pool: chat}";
  EXPECT_THAT(
      changes(pools + "routes: [" + a + ", " + b + "]", pools + "routes: [" + b + ", " + a + "]"),
      ElementsAre("routes: order changed"));
}

TEST(DescribeChanges, TellsRoutesOfTheSameNameApart) {
  const std::string pools = "pools: [{name: chat, backends: ['10.0.0.1:80']}]\n";
  const std::string first = "{name: r, match: {path: /a}, pool: chat}";
  EXPECT_THAT(changes(pools + "routes: [" + first + "]",
                      pools + "routes: [" + first + ", {name: r, match: {path: /b}, pool: chat}]"),
              ElementsAre("route r (2): added"));
}

TEST(TakeoverChanges, AreThoseThatARunningProcessCannotApply) {
  const auto keys = [](const std::string& more) {
    return takeover_changes(read(one_pool), read(one_pool + more));
  };
  EXPECT_THAT(keys("workers: 3\naccess_log: {path: 'off'}\n"),
              ElementsAre("workers", "access_log"));
  EXPECT_THAT(keys("usage: {path: usage.jsonl}\n"), ElementsAre("usage"));
  EXPECT_THAT(keys("audit: {path: audit.jsonl}\n"), ElementsAre("audit"));
  EXPECT_THAT(keys("access_log: {path: stderr}\nadmin: {address: '127.0.0.1:1'}\n"
                   "dns: {servers: ['127.0.0.1:53']}\nshutdown: {drain: 1s}\n"),
              IsEmpty());
}

}  // namespace
}  // namespace evenkeel
