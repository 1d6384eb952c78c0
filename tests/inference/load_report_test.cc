#include "evenkeel/inference/load_report.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <string_view>

namespace evenkeel {
namespace {

/// An OrcaLoadReport: cpu_utilization 0.5, named_metrics {"kv_cache_usage_perc": 0.25,
/// "num_requests_waiting": 2}.
constexpr std::string_view message =
    "CQAAAAAAAOA/Qh4KE2t2X2NhY2hlX3VzYWdlX3BlcmMRAAAAAAAA0D9CHwoU"
    "bnVtX3JlcXVlc3RzX3dhaXRpbmcRAAAAAAAAAEA";

TEST(LoadReport, IsReadAsVllmWritesIt) {
  for (const char* value :
       {"TEXT named_metrics.kv_cache_usage_perc=0.4, named_metrics.num_requests_waiting=3.0",
        R"(JSON {"named_metrics": {"kv_cache_usage_perc": 0.4, "num_requests_waiting": 3.0}})"}) {
    const auto report = read_load_report(value);
    ASSERT_TRUE(report.has_value()) << value;
    EXPECT_DOUBLE_EQ(report->kv_cache_ratio, 0.4);
    EXPECT_EQ(report->waiting, 3);
    EXPECT_TRUE(std::isnan(report->running)) << "it does not say";
  }
}

TEST(LoadReport, IsReadAsTritonWritesIt) {
  const auto report = read_load_report(
      "TEXT named_metrics.kv_cache_utilization=0.000160, named_metrics.max_token_capacity=399296");
  ASSERT_TRUE(report.has_value());
  EXPECT_DOUBLE_EQ(report->kv_cache_ratio, 0.00016);
  EXPECT_TRUE(std::isnan(report->waiting));
}

TEST(LoadReport, AddsTheCountsOfRanksAndTakesTheFullestCache) {
  const auto report = read_load_report(
      "text named_metrics.kv_cache_usage_perc=0.4,named_metrics.kv_cache_usage_perc=0.7,"
      "named_metrics.num_requests_waiting:3,named_metrics.num_requests_waiting:4,"
      "named_metrics.num_requests_running=5");
  ASSERT_TRUE(report.has_value());
  EXPECT_DOUBLE_EQ(report->kv_cache_ratio, 0.7);
  EXPECT_EQ(report->waiting, 7);
  EXPECT_EQ(report->running, 5);
}

TEST(LoadReport, IsReadFromAMessage) {
  const std::string text(message);
  for (const auto& report : {read_binary_load_report(text), read_load_report("BIN " + text),
                             read_binary_load_report(text + "=")}) {
    ASSERT_TRUE(report.has_value());
    EXPECT_EQ(report->kv_cache_ratio, 0.25);
    EXPECT_EQ(report->waiting, 2);
  }
}

TEST(LoadReport, IsNothingIfItIsMalformedOrSaysNothingKnown) {
  for (const std::string& value :
       {std::string(), std::string("TEXT"), std::string("TEXT cpu_utilization=0.3"),
        std::string("TEXT named_metrics.num_requests_waiting=-1"),
        std::string("TEXT named_metrics.num_requests_waiting=nan"),
        std::string("TEXT named_metrics.kv_cache_usage_perc=40"),
        std::string("TEXT named_metrics.num_requests_waiting=three"),
        std::string("JSON {\"named_metrics\": {\"num_requests_waiting\": "), std::string("JSON []"),
        std::string("JSON {\"named_metrics\": 3}"), std::string("BIN !!!"), std::string("XML <a/>"),
        "TEXT " + std::string(10'000, ','), std::string("named_metrics.num_requests_waiting=3")}) {
    EXPECT_FALSE(read_load_report(value).has_value()) << value.substr(0, 80);
  }
  EXPECT_FALSE(read_binary_load_report("AAAAAAAA").has_value());
}

}  // namespace
}  // namespace evenkeel
