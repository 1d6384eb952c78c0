#include "discovery/kubernetes_objects.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "evenkeel/config/address.h"

namespace evenkeel {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;
using testing::UnorderedElementsAre;

JsonValue json(const std::string& text) {
  auto value = parse_json(text);
  EXPECT_TRUE(value) << text;
  return value ? std::move(*value) : JsonValue();
}

std::vector<std::string> addresses(const std::vector<BackendConfig>& backends) {
  std::vector<std::string> list;
  for (const BackendConfig& each : backends) list.push_back(to_string(each.address));
  return list;
}

/// A slice whose endpoints are given as JSON.
std::string slice_text(const std::string& name, const std::string& endpoints,
                       const std::string& ports = R"([{"name": "http", "port": 8000}])",
                       const std::string& type = "IPv4") {
  return R"({"metadata": {"name": ")" + name +
         R"(", "labels": {"kubernetes.io/service-name": "llama", "tier": "gold"}},
           "addressType": ")" +
         type + R"(", "ports": )" + ports + R"(, "endpoints": )" + endpoints + "}";
}

EndpointSlice slice(const std::string& text, std::string_view port = "") {
  auto read = read_endpoint_slice(json(text), port);
  EXPECT_TRUE(read) << text;
  return read ? std::move(*read) : EndpointSlice{};
}

std::vector<BackendConfig> backends_of_slices(const std::vector<EndpointSlice>& slices) {
  std::map<std::string, EndpointSlice> by_name;
  for (const EndpointSlice& each : slices) by_name.emplace(each.name, each);
  return backends_of(by_name);
}

TEST(EndpointSlices, GiveTheAddressWithPortZoneAndLabels) {
  const auto read = slice(slice_text("a", R"([{"addresses": ["10.0.0.1", "10.0.0.9"],
      "conditions": {"ready": true}, "zone": "eu-1a",
      "targetRef": {"kind": "Pod", "name": "llama-0", "uid": "u0"}}])"));

  const auto backends = backends_of_slices({read});

  ASSERT_THAT(addresses(backends), ElementsAre("10.0.0.1:8000"));
  EXPECT_EQ(backends[0].zone, "eu-1a");
  EXPECT_THAT(backends[0].labels,
              UnorderedElementsAre(Pair("tier", "gold"), Pair("pod", "llama-0")));
  EXPECT_FALSE(backends[0].address.secure);
}

TEST(EndpointSlices, OnlyWhatServesAndIsNotAboutToEndGetsRequests) {
  const auto read = slice(slice_text("a", R"([
      {"addresses": ["10.0.0.1"], "conditions": {"ready": true, "serving": true, "terminating": false}},
      {"addresses": ["10.0.0.2"], "conditions": {"ready": false, "serving": true, "terminating": true}},
      {"addresses": ["10.0.0.3"], "conditions": {"ready": false, "serving": false}},
      {"addresses": ["10.0.0.4"], "conditions": {"ready": false}}])"));

  EXPECT_THAT(addresses(backends_of_slices({read})), ElementsAre("10.0.0.1:8000"));
}

TEST(EndpointSlices, AbsentConditionsMeanReady) {
  const auto read = slice(slice_text("a", R"([
      {"addresses": ["10.0.0.1"]},
      {"addresses": ["10.0.0.2"], "conditions": {"ready": null, "serving": null, "terminating": null}},
      {"addresses": ["10.0.0.3"], "conditions": {"ready": true, "serving": null}}])"));

  EXPECT_EQ(backends_of_slices({read}).size(), 3u);
}

TEST(EndpointSlices, AnAddressInTwoSlicesCountsOnceAndEndsWithEither) {
  const auto a =
      slice(slice_text("a", R"([{"addresses": ["10.0.0.1"]}, {"addresses": ["10.0.0.2"]}])"));
  const auto b = slice(slice_text("b", R"([{"addresses": ["10.0.0.1"]},
               {"addresses": ["10.0.0.2"], "conditions": {"serving": true, "terminating": true}}])"));

  EXPECT_THAT(addresses(backends_of_slices({a, b})), ElementsAre("10.0.0.1:8000"));
}

TEST(EndpointSlices, APodOfBothFamiliesIsOneBackend) {
  const auto v4 =
      slice(slice_text("a", R"([{"addresses": ["10.0.0.1"], "targetRef": {"uid": "u0"}}])"));
  const auto v6 = slice(slice_text("b",
                                   R"([{"addresses": ["fd00::1"], "targetRef": {"uid": "u0"}},
                                       {"addresses": ["fd00::2"], "targetRef": {"uid": "u1"}}])",
                                   R"([{"port": 8000}])", "IPv6"));

  EXPECT_THAT(addresses(backends_of_slices({v4, v6})),
              UnorderedElementsAre("10.0.0.1:8000", "[fd00::2]:8000"));
}

TEST(EndpointSlices, ThePortIsChosenByNumberOrName) {
  const std::string ports =
      R"([{"name": "http", "port": 8000}, {"name": "tls", "port": 8443, "appProtocol": "https"}])";
  const std::string text = slice_text("a", R"([{"addresses": ["10.0.0.1"]}])", ports);

  EXPECT_THAT(addresses(slice(text, "8000").endpoints.empty()
                            ? std::vector<BackendConfig>()
                            : std::vector{slice(text, "8000").endpoints[0].backend}),
              ElementsAre("10.0.0.1:8000"));
  ASSERT_EQ(slice(text, "tls").endpoints.size(), 1u);
  EXPECT_EQ(slice(text, "tls").endpoints[0].backend.address.port, 8443);
  EXPECT_TRUE(slice(text, "tls").endpoints[0].backend.address.secure);
}

TEST(EndpointSlices, SayWhichPortsThereAreWhenTheWantedOneIsNot) {
  const std::string ports =
      R"([{"name": "http", "port": 8000}, {"name": "metrics", "port": 9090}])";
  const std::string text = slice_text("a", R"([{"addresses": ["10.0.0.1"]}])", ports);

  EXPECT_THAT(slice(text, "80").problem,
              HasSubstr("no port '80', but 8000 (http), 9090 (metrics)"));
  EXPECT_THAT(slice(text).problem, HasSubstr("several ports: give one as `port`"));
  EXPECT_THAT(slice(text).endpoints, IsEmpty());
}

TEST(EndpointSlices, OtherDocumentsAreNone) {
  EXPECT_FALSE(read_endpoint_slice(json("{}"), ""));
  EXPECT_FALSE(read_endpoint_slice(json(R"({"metadata": {"name": "a"}})"), ""));
  EXPECT_FALSE(read_endpoint_slice(json("[1, 2]"), ""));
}

TEST(EndpointSlices, WhatIsNoAddressIsLeftOut) {
  const auto read = slice(slice_text("a", R"([{"addresses": []}, {"addresses": ["not an ip"]}, {},
                                              {"addresses": ["10.0.0.1"]}])"));

  EXPECT_THAT(addresses(backends_of_slices({read})), ElementsAre("10.0.0.1:8000"));
}

TEST(InferencePools, HaveASelectorAndAPortForEachRank) {
  const auto pool = read_inference_pool(json(R"({"spec": {
      "selector": {"matchLabels": {"app": "llama", "tier": "gold"}},
      "targetPorts": [{"number": 8000}, {"number": 8001}]}})"));

  ASSERT_TRUE(pool);
  EXPECT_EQ(pool->selector, "app=llama,tier=gold");
  EXPECT_THAT(pool->ports, ElementsAre(8000, 8001));
}

TEST(InferencePools, LackNeitherSelectorNorPorts) {
  EXPECT_FALSE(read_inference_pool(json(R"({"spec": {"targetPorts": [{"number": 8000}]}})")));
  EXPECT_FALSE(read_inference_pool(json(R"({"spec": {"selector": {"matchLabels": {"a": "b"}}}})")));
  EXPECT_FALSE(read_inference_pool(json(
      R"({"spec": {"selector": {"matchLabels": {"a": "b"}}, "targetPorts": [{"number": 70000}]}})")));
}

std::string pod_text(const std::string& metadata = "", const std::string& ready = "True") {
  return R"({"metadata": {"name": "llama-0")" + metadata + R"(},
      "status": {"podIP": "10.0.0.1", "conditions": [{"type": "Initialized", "status": "True"},
                                                     {"type": "Ready", "status": ")" +
         ready + R"("}]}})";
}

TEST(Pods, AreABackendForEachPort) {
  const auto backends = backends_of(json(pod_text()), {8000, 8001});

  EXPECT_THAT(addresses(backends), ElementsAre("10.0.0.1:8000", "10.0.0.1:8001"));
  EXPECT_EQ(backends[0].labels.at("rank"), "0");
  EXPECT_EQ(backends[1].labels.at("rank"), "1");
}

TEST(Pods, BringLabelsZoneAndSomeAnnotations) {
  const auto backends = backends_of(
      json(pod_text(R"(, "labels": {"llm-d.ai/role": "decode", "topology.kubernetes.io/zone": "z1"},
                         "annotations": {"llm-d.ai/engine-type": "vllm", "other": "x"})")),
      {8000});

  ASSERT_EQ(backends.size(), 1u);
  EXPECT_EQ(backends[0].zone, "z1");
  EXPECT_EQ(backends[0].labels.at("llm-d.ai/role"), "decode");
  EXPECT_EQ(backends[0].labels.at("llm-d.ai/engine-type"), "vllm");
  EXPECT_EQ(backends[0].labels.at("pod"), "llama-0");
  EXPECT_FALSE(backends[0].labels.contains("other"));
  EXPECT_FALSE(backends[0].labels.contains("rank"));
}

TEST(Pods, ThatAreNotReadyOrAreDeletedAreNone) {
  EXPECT_THAT(backends_of(json(pod_text("", "False")), {8000}), IsEmpty());
  EXPECT_THAT(
      backends_of(json(pod_text(R"(, "deletionTimestamp": "2026-01-01T00:00:00Z")")), {8000}),
      IsEmpty());
  EXPECT_THAT(backends_of(json(R"({"metadata": {"name": "p"}, "status": {}})"), {8000}), IsEmpty());
}

TEST(Pods, SayWhichOfTheirPortsAreActive) {
  const auto backends =
      backends_of(json(pod_text(R"(, "annotations": {"llm-d.ai/active-ports": "8001, 8003"})")),
                  {8000, 8001, 8002, 8003});

  EXPECT_THAT(addresses(backends), ElementsAre("10.0.0.1:8001", "10.0.0.1:8003"));
}

}  // namespace
}  // namespace evenkeel
