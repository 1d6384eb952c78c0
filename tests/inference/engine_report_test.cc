#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <string_view>
#include <vector>

#include "evenkeel/base/hash.h"
#include "evenkeel/inference/engine_metrics.h"
#include "inference/recorded.h"

namespace evenkeel {
namespace {

EngineReport report_of(std::string_view engine, std::string_view page) {
  EngineMetricsReader reader(engine_named(engine));
  reader.read(page);
  return reader.report();
}

std::vector<std::uint64_t> hashes(std::initializer_list<std::string_view> names) {
  std::vector<std::uint64_t> hashes;
  for (const std::string_view name : names) hashes.push_back(hash_of(name));
  return hashes;
}

TEST(RecordedReport, OfVllm) {
  for (const char* engine : {"vllm", "generic"}) {
    const EngineReport report = report_of(engine, all_recorded()["vllm"]);
    EXPECT_DOUBLE_EQ(report.start_time, 1.79528074287e+09) << engine;
    EXPECT_EQ(report.kv_tokens, 21'760) << engine;
    EXPECT_EQ(report.prefix_queried, 88) << engine;
    EXPECT_EQ(report.prefix_hit, 0) << engine;
    EXPECT_GE(report.work_done, 88) << engine;
    EXPECT_TRUE(std::isnan(report.step_tokens)) << "it does not say";
    EXPECT_FALSE(report.adapters.has_value()) << "it has no adapters";
  }
}

TEST(RecordedReport, OfMlServerAndLlamacpp) {
  auto recorded = all_recorded();
  EXPECT_DOUBLE_EQ(report_of("mlserver", recorded["mlserver"]).start_time, 1.79528162374e+09);
  const EngineReport llamacpp = report_of("llamacpp", recorded["llamacpp"]);
  EXPECT_EQ(llamacpp.work_done, 6122);
  EXPECT_TRUE(std::isnan(llamacpp.start_time));
  EXPECT_EQ(llamacpp.prefix_queried, 53 + 192);
  EXPECT_EQ(llamacpp.prefix_hit, 192);
}

TEST(RecordedReport, OfRayIsNotThatOfTheEnginesBehindIt) {
  const EngineReport report = report_of("ray", all_recorded()["ray"]);
  EXPECT_TRUE(std::isnan(report.start_time)) << "that of its agent";
}

TEST(EngineReport, OfVllmAddsTheCachesOfItsRanks) {
  EXPECT_EQ(report_of("vllm",
                      "vllm:cache_config_info{engine=\"0\",kv_cache_size_tokens=\"1000\"} 1.0\n"
                      "vllm:cache_config_info{engine=\"1\",kv_cache_size_tokens=\"1200\"} 1.0\n")
                .kv_tokens,
            2200);
}

TEST(EngineReport, OfVllmMultipliesBlocksWhereNoTokensAreGiven) {
  EXPECT_EQ(report_of("vllm",
                      "vllm:cache_config_info{block_size=\"16\",num_cpu_blocks=\"None\","
                      "num_gpu_blocks=\"27130\"} 1.0\n")
                .kv_tokens,
            27'130 * 16);
  EXPECT_EQ(report_of("vllm",
                      "vllm:cache_config_info{block_size=\"16\",kv_cache_size_tokens=\"None\","
                      "num_gpu_blocks=\"10\"} 1.0\n")
                .kv_tokens,
            160);
}

TEST(EngineReport, HasNoSizeThatIsNoNumber) {
  for (const char* blocks : {"None", "", "0", "-5", "12x", "nan", "1e300"}) {
    const std::string page =
        std::string("vllm:cache_config_info{block_size=\"16\",num_gpu_blocks=\"") + blocks +
        "\"} 1.0\n";
    EXPECT_TRUE(std::isnan(report_of("vllm", page).kv_tokens)) << blocks;
  }
}

TEST(EngineReport, OfVllmKnowsTheOldNamesOfItsPrefixCounters) {
  const EngineReport report =
      report_of("vllm",
                "vllm:gpu_prefix_cache_queries_total{model_name=\"m\"} 500.0\n"
                "vllm:gpu_prefix_cache_hits_total{model_name=\"m\"} 200.0\n"
                "vllm:gpu_prefix_cache_hits_created{model_name=\"m\"} 1.79e+09\n");
  EXPECT_EQ(report.prefix_queried, 500);
  EXPECT_EQ(report.prefix_hit, 200);
}

/// A line of vLLM with `--max-loras 2`; its value is when the engine last showed these adapters.
std::string adapters_at(const std::string& time, const std::string& running,
                        const std::string& waiting = "") {
  return "vllm:lora_requests_info{max_lora=\"2\",running_lora_adapters=\"" + running +
         "\",waiting_lora_adapters=\"" + waiting + "\"} " + time + "\n";
}

TEST(EngineReport, OfVllmListsTheAdaptersOfItsLastUpdate) {
  const EngineReport report =
      report_of("vllm", adapters_at("1.7881842e+09", "old") +
                            adapters_at("1.7881843e+09", "sql-lora, chat-lora", "sql-lora,other") +
                            adapters_at("1.7881841e+09", "older"));

  ASSERT_TRUE(report.adapters.has_value());
  EXPECT_EQ(report.adapters->in_use, hashes({"sql-lora", "chat-lora", "other"}));
  EXPECT_EQ(report.adapters->used_before, hashes({"old", "older"}));
  EXPECT_EQ(report.adapters->slots, 2u);
}

/// As vLLM 0.32.0 shows it after requests for four adapters, one after the other.
TEST(EngineReport, OfVllmTellsWhichAdaptersWereUsedLast) {
  const EngineReport report =
      report_of("vllm", adapters_at("1.795445116143472e+09", "sql", "sql") +
                            adapters_at("1.7954451162196994e+09", "") +
                            adapters_at("1.7954451151883109e+09", "chat", "chat") +
                            adapters_at("1.7954451154091568e+09", "code") +
                            adapters_at("1.795445114e+09", "sql", "never"));

  ASSERT_TRUE(report.adapters.has_value());
  EXPECT_TRUE(report.adapters->in_use.empty());
  EXPECT_EQ(report.adapters->used_before, hashes({"sql", "code", "chat"}));
}

TEST(EngineReport, LeavesOutAdaptersWithoutATime) {
  const EngineReport report =
      report_of("vllm", adapters_at("NaN", "sql") + adapters_at("1.7954451151883109e+09", "chat") +
                            adapters_at("NaN", "sql"));

  ASSERT_TRUE(report.adapters.has_value());
  EXPECT_EQ(report.adapters->in_use, hashes({"chat"}));
  EXPECT_TRUE(report.adapters->used_before.empty());
}

TEST(EngineReport, KeepsTheAdaptersThatWereUsedLast) {
  std::string page;
  for (int i = 1; i <= 100; ++i) {
    const std::string number = std::to_string((i * 37) % 101);  // in any order
    page += adapters_at(number + ".0", "a" + number);
  }
  const EngineReport report = report_of("vllm", page);

  EXPECT_EQ(report.adapters->in_use, hashes({"a100"}));
  ASSERT_EQ(report.adapters->used_before.size(), 31u);
  EXPECT_EQ(report.adapters->used_before[0], hashes({"a99"})[0]);
  EXPECT_EQ(report.adapters->used_before[30], hashes({"a69"})[0]);
}

TEST(EngineReport, OfVllmMayHaveAdaptersOfWhichNoneIsInUse) {
  const EngineReport report = report_of(
      "vllm",
      "vllm:lora_requests_info{running_lora_adapters=\"\",waiting_lora_adapters=\"\"} 1.0\n");
  ASSERT_TRUE(report.adapters.has_value());
  EXPECT_TRUE(report.adapters->in_use.empty());
  EXPECT_EQ(report.adapters->slots, 0u) << "the Rust frontend does not say";
}

TEST(EngineReport, ListsABoundedNumberOfAdapters) {
  std::string names;
  for (int i = 0; i < 500; ++i) names += "adapter-" + std::to_string(i) + ",";
  const EngineReport report = report_of("vllm",
                                        "vllm:lora_requests_info{max_lora=\"500\","
                                        "running_lora_adapters=\"" +
                                            names + "\"} 1.0\n");
  EXPECT_EQ(report.adapters->in_use.size(), 32u);
  EXPECT_EQ(report.adapters->slots, 32u);
}

TEST(EngineReport, OfSglangTellsItsSlotsForAdaptersIfItHasAny) {
  EXPECT_EQ(report_of("sglang",
                      "sglang:lora_pool_slots_total{tp_rank=\"0\"} 8.0\n"
                      "sglang:lora_pool_slots_total{tp_rank=\"1\"} 8.0\n")
                .adapter_slots,
            8);
  EXPECT_TRUE(std::isnan(report_of("sglang", "sglang:lora_pool_slots_total 0.0\n").adapter_slots));
  EXPECT_TRUE(std::isnan(report_of("sglang", "sglang:num_running_reqs 0.0\n").adapter_slots));
}

TEST(EngineReport, OfSglangCountsEachRankOfDataParallelismOnce) {
  const EngineReport report =
      report_of("sglang",
                "sglang:max_total_num_tokens{dp_rank=\"0\",tp_rank=\"0\"} 100000.0\n"
                "sglang:max_total_num_tokens{dp_rank=\"0\",tp_rank=\"1\"} 100000.0\n"
                "sglang:max_total_num_tokens{dp_rank=\"1\",tp_rank=\"2\"} 90000.0\n"
                "sglang:prompt_tokens_total{model_name=\"m\"} 8000.0\n"
                "sglang:generation_tokens_total{model_name=\"m\"} 10.0\n"
                "sglang:cached_tokens_total{cache_source=\"device\",model_name=\"m\"} 500.0\n"
                "sglang:cached_tokens_total{cache_source=\"host\",model_name=\"m\"} 100.0\n");
  EXPECT_EQ(report.kv_tokens, 190'000);
  EXPECT_EQ(report.prefix_queried, 8000);
  EXPECT_EQ(report.prefix_hit, 600);
  EXPECT_EQ(report.work_done, 8010);
}

TEST(EngineReport, OfLlamacppAddsComputedAndCachedTokens) {
  const EngineReport report = report_of("llamacpp",
                                        "llamacpp:prompt_tokens_total 74\n"
                                        "llamacpp:prompt_tokens_cached_total 72\n"
                                        "llamacpp:n_decode_total 9\n");
  EXPECT_EQ(report.prefix_queried, 146);
  EXPECT_EQ(report.prefix_hit, 72);
  EXPECT_TRUE(std::isnan(report.kv_tokens)) << "it does not say whether its slots share it";
}

TEST(EngineReport, OfTritonReadsItsTensorRtLlmBackend) {
  const EngineReport report = report_of(
      "triton",
      "nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type=\"max\",model=\"t\"} 6239\n"
      "nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type=\"tokens_per\",model=\"t\"} 64\n"
      "nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type=\"used\",model=\"t\"} 1\n"
      "nv_energy_consumption{gpu_uuid=\"a\"} 100.5\nnv_energy_consumption{gpu_uuid=\"b\"} 20\n");
  EXPECT_EQ(report.kv_tokens, 6239 * 64);
  EXPECT_EQ(report.work_done, 120.5);
}

TEST(EngineReport, OfTrtllmAndTgiIsRead) {
  const EngineReport trtllm = report_of("trtllm",
                                        "trtllm_kv_cache_max_blocks{model_name=\"m\"} 100\n"
                                        "trtllm_kv_cache_tokens_per_block{model_name=\"m\"} 32\n"
                                        "trtllm_max_num_tokens_runtime{model_name=\"m\"} 8192\n"
                                        "trtllm_prompt_tokens_total{model_name=\"m\"} 900\n"
                                        "trtllm_prompt_cached_tokens_total{model_name=\"m\"} 300\n"
                                        "process_start_time_seconds 1.7e9\n");
  EXPECT_EQ(trtllm.kv_tokens, 3200);
  EXPECT_EQ(trtllm.step_tokens, 8192);
  EXPECT_EQ(trtllm.prefix_queried, 900);
  EXPECT_EQ(trtllm.prefix_hit, 300);
  EXPECT_EQ(trtllm.start_time, 1.7e9);
  const EngineReport tgi =
      report_of("tgi", "tgi_batch_max_total_tokens 16000\ntgi_request_count 7\n");
  EXPECT_EQ(tgi.kv_tokens, 16'000);
  EXPECT_EQ(tgi.work_done, 7);
}

TEST(EngineReport, OfAnEmptyPageIsUnknown) {
  const EngineReport report = report_of("vllm", "");
  for (const double value : {report.start_time, report.work_done, report.kv_tokens,
                             report.step_tokens, report.prefix_queried, report.prefix_hit}) {
    EXPECT_TRUE(std::isnan(value));
  }
}

}  // namespace
}  // namespace evenkeel
