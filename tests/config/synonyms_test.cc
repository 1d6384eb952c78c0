#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/test_environment.h"
#include "evenkeel/config/spelling.h"

namespace evenkeel {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// What a file gets for this key in place of that one.
std::string help_for(const std::string& file) {
  const auto problems = read(file).problems;
  return problems.empty() ? "" : problems.front().help;
}

std::string picker_help(const std::string& picker) {
  return help_for("pools: [{name: a, backends: [h:1], picker: " + picker + "}]");
}

TEST(Synonyms, PickersOfOtherProxies) {
  EXPECT_EQ(picker_help("leastconn"), "did you mean 'least-connections'?");
  EXPECT_EQ(picker_help("least_conn"), "did you mean 'least-connections'?");
  EXPECT_EQ(picker_help("LEAST_REQUEST"), "did you mean 'least-connections'?");
  EXPECT_EQ(picker_help("roundrobin"), "did you mean 'round-robin'?");
  EXPECT_EQ(picker_help("rr"), "did you mean 'round-robin'?");
  EXPECT_EQ(picker_help("ring_hash"), "did you mean 'consistent-hash'?");
  EXPECT_EQ(picker_help("peak_ewma"), "did you mean 'least-latency'?");
}

TEST(Synonyms, ProtocolsAndEngines) {
  const auto pool = [](const std::string& key) {
    return help_for("pools: [{name: a, backends: [h:1], " + key + "}]");
  };
  EXPECT_EQ(pool("protocol: http2"), "did you mean 'h2'?");
  EXPECT_EQ(pool("protocol: grpc"), "did you mean 'h2'?");
  EXPECT_EQ(pool("protocol: HTTP/1.1"), "did you mean 'http1'?");
  EXPECT_EQ(pool("engine: llama.cpp"), "did you mean 'llamacpp'?");
  EXPECT_EQ(pool("engine: tensorrt-llm"), "did you mean 'trtllm'?");
  EXPECT_EQ(pool("engine: text-generation-inference"), "did you mean 'tgi'?");
}

TEST(Synonyms, KeysAtTheTop) {
  const auto top = [](const std::string& key) {
    return help_for(key + "\npools: [{name: a, backends: [h:1]}]");
  };
  EXPECT_EQ(top("access_logs: {path: off}"), "did you mean 'access_log'?");
  EXPECT_EQ(top("logging: {level: debug}"), "did you mean 'log'?");
  EXPECT_EQ(top("frontends: []"), "did you mean 'listeners'?");
  EXPECT_EQ(top("bind: [{address: h:1}]"), "did you mean 'listeners'?");
  EXPECT_EQ(top("threads: 2"), "did you mean 'workers'?");
  EXPECT_EQ(help_for("upstreams: [{name: a, backends: [h:1]}]"), "did you mean 'pools'?");
  EXPECT_EQ(help_for("clusters: [{name: a, backends: [h:1]}]"), "did you mean 'pools'?");
}

TEST(Synonyms, MeanTheKeyThatIsKnownAtThatPlace) {
  EXPECT_EQ(help_for("pools: [{name: a, servers: [h:1]}]"), "did you mean 'backends'?");
  EXPECT_EQ(help_for("pools: [{name: a, backends: [{server: h:1}]}]"), "did you mean 'address'?");
  EXPECT_EQ(help_for("pools: [{name: a, backends: [h:1], balance: gpu}]"),
            "did you mean 'picker'?");
  EXPECT_EQ(help_for("listeners: [{bind: ':80'}]\npools: [{name: a, backends: [h:1]}]"),
            "did you mean 'address'?");
  EXPECT_EQ(help_for("pools: [{name: a, backends: [h:1]}]\nroutes: [{backend: a}]"),
            "did you mean 'pool'?");
  EXPECT_EQ(
      help_for("pools: [{name: a, backends: [h:1]}]\nroutes: [{pool: a, match: {prefix: /}}]"),
      "did you mean 'path'?");
}

TEST(Synonyms, AKeyByAnotherNameIsReadAsTheOneThatWasMeant) {
  EXPECT_THAT(problems_of("clusters: [{name: a, servers: [h:1]}]"),
              ElementsAre(HasSubstr("clusters: unknown key"), HasSubstr("servers: unknown key")));
}

TEST(Synonyms, AreOnlySuggestedWhereTheirMeaningIsKnown) {
  EXPECT_EQ(nearest_word("leastconn", {"alpha", "beta"}), std::nullopt);
  EXPECT_EQ(nearest_word("http2", {"auto", "http1", "h2"}), "h2") << "not http1, one edit away";
}

}  // namespace
}  // namespace evenkeel
