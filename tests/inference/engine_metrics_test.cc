#include "evenkeel/inference/engine_metrics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <string_view>

#include "inference/recorded.h"

namespace evenkeel {
namespace {

LoadSample reading_of(std::string_view engine, std::string_view text) {
  EngineMetricsReader reader(engine_named(engine));
  for (; !text.empty(); text.remove_prefix(std::min<std::size_t>(text.size(), 1000))) {
    reader.read(text.substr(0, 1000));
  }
  return reader.reading();
}

/// NaN equals NaN here.
void expect(double value, double expected, const char* what) {
  if (std::isnan(expected)) {
    EXPECT_TRUE(std::isnan(value)) << what << " is " << value;
  } else {
    EXPECT_DOUBLE_EQ(value, expected) << what;
  }
}

void expect(const LoadSample& reading, const LoadSample& expected) {
  expect(reading.running, expected.running, "running");
  expect(reading.waiting, expected.waiting, "waiting");
  expect(reading.kv_cache_ratio, expected.kv_cache_ratio, "kv cache");
  expect(reading.gpu_utilization_ratio, expected.gpu_utilization_ratio, "gpu utilization");
  expect(reading.gpu_memory_used_bytes, expected.gpu_memory_used_bytes, "gpu memory used");
  expect(reading.gpu_memory_total_bytes, expected.gpu_memory_total_bytes, "gpu memory total");
}

// ---- Recordings ---------------------------------------------------------------------------------

TEST(Recorded, VllmIsRead) {
  expect(reading_of("vllm", all_recorded()["vllm"]),
         {.running = 4, .waiting = 3, .kv_cache_ratio = 0.023668639053254448});
}

TEST(Recorded, VllmIsReadAsGeneric) {
  expect(reading_of("generic", all_recorded()["vllm"]),
         {.running = 4, .waiting = 3, .kv_cache_ratio = 0.023668639053254448});
}

TEST(Recorded, RayIsRead) {
  const std::string text = all_recorded()["ray"];
  EXPECT_GT(text.size(), 500'000u);
  expect(reading_of("ray", text), {.running = 4, .waiting = 5});
}

TEST(Recorded, TritonMlServerAndLlamacppAreRead) {
  auto recorded = all_recorded();
  expect(reading_of("triton", recorded["triton"]), {.waiting = 4});
  expect(reading_of("mlserver", recorded["mlserver"]), {.running = 8});
  expect(reading_of("llamacpp", recorded["llamacpp"]), {.running = 1, .waiting = 3});
}

TEST(Recorded, TorchServeWithoutAGpuHasNoLoadValues) {
  EXPECT_FALSE(reading_of("torchserve", all_recorded()["torchserve"]).any());
}

// ---- Series of each engine
// -----------------------------------------------------------------------------------

TEST(EngineSeries, OfVllmSumsItsRanksAndTakesTheFullestCache) {
  const auto reading = reading_of("vllm",
                                  "vllm:num_requests_running{engine=\"0\",model_name=\"m\"} 37.0\n"
                                  "vllm:num_requests_running{engine=\"1\",model_name=\"m\"} 5.0\n"
                                  "vllm:num_requests_waiting{engine=\"0\",model_name=\"m\"} 12.0\n"
                                  "vllm:num_requests_waiting{engine=\"1\",model_name=\"m\"} 0.0\n"
                                  "vllm:kv_cache_usage_perc{engine=\"0\",model_name=\"m\"} 0.41\n"
                                  "vllm:kv_cache_usage_perc{engine=\"1\",model_name=\"m\"} 0.9\n");

  expect(reading, {.running = 42, .waiting = 12, .kv_cache_ratio = 0.9});
}

TEST(EngineSeries, OfVllmKnowsItsOldNamesAndPrefersTheNew) {
  expect(reading_of("vllm", "vllm:gpu_cache_usage_perc{model_name=\"m\"} 0.25\n"),
         {.kv_cache_ratio = 0.25});
  expect(reading_of("vllm",
                    "vllm:gpu_cache_usage_perc{model_name=\"m\"} 0.25\n"
                    "vllm:kv_cache_usage_perc{model_name=\"m\"} 0.5\n"),
         {.kv_cache_ratio = 0.5});
}

TEST(EngineSeries, OfVllmKnowsNimsNamesWithoutAPrefix) {
  expect(reading_of("vllm",
                    "num_requests_running{model_name=\"m\"} 3\nnum_requests_waiting 1\n"
                    "gpu_cache_usage_perc 0.5\n"),
         {.running = 3, .waiting = 1, .kv_cache_ratio = 0.5});
}

TEST(EngineSeries, OfVllmReadsOpenMetrics) {
  EngineMetricsReader reader(engine_named("vllm"));
  reader.read(
      "# TYPE vllm:num_requests_running gauge\n"
      "vllm:num_requests_running{model_name=\"m\",engine=\"0\"} 2\n# EOF\n");

  EXPECT_TRUE(reader.ended());
  expect(reader.reading(), {.running = 2});
}

TEST(EngineSeries, OfSglangCountsNoRequestTwice) {
  const auto reading = reading_of(
      "sglang",
      "sglang:num_running_reqs{engine_type=\"unified\",pp_rank=\"0\",tp_rank=\"0\"} 162.0\n"
      "sglang:num_running_reqs{engine_type=\"unified\",pp_rank=\"0\",tp_rank=\"1\"} 162.0\n"
      "sglang:num_running_reqs{engine_type=\"unified\",pp_rank=\"1\",tp_rank=\"0\"} 162.0\n"
      "sglang:num_running_reqs{dp_rank=\"1\",pp_rank=\"0\",tp_rank=\"0\"} 8.0\n"
      "sglang:num_queue_reqs{pp_rank=\"0\",tp_rank=\"0\",priority=\"\"} 28.0\n"
      "sglang:num_queue_reqs{pp_rank=\"0\",tp_rank=\"0\",priority=\"1\"} 20.0\n"
      "sglang:num_queue_reqs{pp_rank=\"0\",tp_rank=\"0\",priority=\"5\"} 8.0\n"
      "sglang:token_usage{pp_rank=\"0\",tp_rank=\"0\"} 0.28\n"
      "sglang:full_token_usage{pp_rank=\"0\",tp_rank=\"0\"} 0.9\n");

  expect(reading, {.running = 170, .waiting = 28, .kv_cache_ratio = 0.28});
}

/// With --enable-dp-attention a tensor rank of its own reports for each rank of data parallelism.
TEST(EngineSeries, OfSglangSumsTheRanksOfDataParallelism) {
  std::string text;
  for (int dp = 0; dp < 8; ++dp) {
    const std::string labels = "{dp_rank=\"" + std::to_string(dp) + "\",pp_rank=\"0\",tp_rank=\"" +
                               std::to_string(dp) + "\"} ";
    text += "sglang:num_running_reqs" + labels + "10\nsglang:num_queue_reqs" + labels +
            "2\nsglang:token_usage" + labels + "0." + std::to_string(dp + 1) + "\n";
  }
  expect(reading_of("sglang", text), {.running = 80, .waiting = 16, .kv_cache_ratio = 0.8});

  // With two such ranks, all eight schedulers report.
  text.clear();
  for (int tp = 0; tp < 8; ++tp) {
    text += "sglang:num_running_reqs{dp_rank=\"" + std::to_string(tp / 4) + "\",tp_rank=\"" +
            std::to_string(tp) + "\"} " + std::to_string(5 + tp / 4) + "\n";
  }
  expect(reading_of("sglang", text), {.running = 11});
}

TEST(EngineSeries, OfTritonSumsModelsAndKnowsItsGpus) {
  const auto reading = reading_of(
      "triton",
      "nv_inference_pending_request_count{model=\"resnet50\",version=\"1\"} 7\n"
      "nv_inference_pending_request_count{model=\"bert\",version=\"1\"} 2\n"
      "nv_inference_request_success{model=\"bert\",version=\"1\"} 161\n"
      "nv_gpu_utilization{gpu_uuid=\"GPU-a\"} 0.8\nnv_gpu_utilization{gpu_uuid=\"GPU-b\"} 0.4\n"
      "nv_gpu_memory_used_bytes{gpu_uuid=\"GPU-a\"} 100\n"
      "nv_gpu_memory_used_bytes{gpu_uuid=\"GPU-b\"} 50\n"
      "nv_gpu_memory_total_bytes{gpu_uuid=\"GPU-a\"} 200\n"
      "nv_gpu_memory_total_bytes{gpu_uuid=\"GPU-b\"} 200\n");

  expect(reading, {.waiting = 9,
                   .gpu_utilization_ratio = 0.6000000000000001,
                   .gpu_memory_used_bytes = 150,
                   .gpu_memory_total_bytes = 400});
}

TEST(EngineSeries, OfTritonReadsItsTensorRtLlmBackend) {
  const auto reading = reading_of(
      "triton",
      "nv_inference_pending_request_count{model=\"tensorrt_llm\",version=\"1\"} 2\n"
      "nv_trt_llm_request_metrics{model=\"tensorrt_llm\",request_type=\"waiting\",version=\"1\"} "
      "1\n"
      "nv_trt_llm_request_metrics{model=\"tensorrt_llm\",request_type=\"scheduled\"} 4\n"
      "nv_trt_llm_request_metrics{model=\"tensorrt_llm\",request_type=\"max\"} 512\n"
      "nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type=\"max\",model=\"t\"} 6239\n"
      "nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type=\"fraction\",model=\"t\"} 0.4875\n");

  expect(reading, {.running = 4, .waiting = 3, .kv_cache_ratio = 0.4875});
}

TEST(EngineSeries, OfTrtllmIsRead) {
  expect(reading_of("trtllm",
                    "trtllm_num_requests_running{engine_type=\"x\",model_name=\"m\"} 3.0\n"
                    "trtllm_num_requests_waiting{engine_type=\"x\",model_name=\"m\"} 1.0\n"
                    "trtllm_kv_cache_utilization{engine_type=\"x\",model_name=\"m\"} 0.125\n"
                    "trtllm_gpu_memory_usage_bytes{engine_type=\"x\",model_name=\"m\"} 7.5e+10\n"),
         {.running = 3, .waiting = 1, .kv_cache_ratio = 0.125, .gpu_memory_used_bytes = 7.5e10});
}

TEST(EngineSeries, OfTgiHasItsCacheIfTheBackendReportsTheSize) {
  expect(reading_of("tgi",
                    "tgi_queue_size 5\ntgi_batch_current_size 12\n"
                    "tgi_batch_current_max_tokens 4000\ntgi_batch_max_total_tokens 16000\n"),
         {.running = 12, .waiting = 5, .kv_cache_ratio = 0.25});
  expect(reading_of("tgi", "tgi_queue_size 5\ntgi_batch_current_max_tokens 4000\n"),
         {.waiting = 5});
}

TEST(EngineSeries, OfLlamacppIsRead) {
  expect(reading_of("llamacpp",
                    "llamacpp:requests_processing 2\nllamacpp:requests_deferred 6\n"
                    "llamacpp:n_tokens_max 900\n"),
         {.running = 2, .waiting = 6});
}

TEST(EngineSeries, OfTorchServeHasPercentAndMegabytes) {
  expect(reading_of("torchserve",
                    "GPUUtilization{Level=\"Host\",DeviceId=\"0\",Hostname=\"h\",} 30.0\n"
                    "GPUMemoryUsed{Level=\"Host\",DeviceId=\"0\",Hostname=\"h\",} 512.0\n"
                    "GPUMemoryUtilization{Level=\"Host\",DeviceId=\"0\",Hostname=\"h\",} 50.0\n"),
         {.gpu_utilization_ratio = 0.3,
          .gpu_memory_used_bytes = 512 * mebibyte,
          .gpu_memory_total_bytes = 1024 * mebibyte});
}

TEST(EngineSeries, OfRayPrefersTheEngineToItsProxies) {
  constexpr std::string_view proxies =
      "ray_serve_replica_processing_queries{deployment=\"Router\",replica=\"a\"} 5.0\n"
      "ray_serve_replica_processing_queries{deployment=\"LLM\",replica=\"b\"} 5.0\n"
      "ray_serve_deployment_queued_queries{deployment=\"LLM\"} 2.0\n";
  expect(reading_of("ray", proxies), {.running = 10, .waiting = 2});
  expect(reading_of("ray", std::string(proxies) +
                               "ray_vllm_num_requests_running{ReplicaId=\"b\",engine=\"0\"} 4.0\n"
                               "ray_vllm_num_requests_waiting{ReplicaId=\"b\",engine=\"0\"} 1.0\n"
                               "ray_vllm_kv_cache_usage_perc{ReplicaId=\"b\",engine=\"0\"} 0.5\n"),
         {.running = 4, .waiting = 1, .kv_cache_ratio = 0.5});
}

TEST(EngineSeries, OfMlServerCountsNoChecks) {
  expect(
      reading_of("mlserver",
                 "rest_server_requests_in_progress{app_name=\"mlserver\",method=\"GET\"} 1.0\n"
                 "rest_server_requests_in_progress{app_name=\"mlserver\",method=\"POST\"} 8.0\n"),
      {.running = 8});
}

TEST(EngineSeries, OfTensorFlowServingHasNoSeries) {
  EXPECT_TRUE(series_of(engine_named("tfserving")).series.empty());
}

TEST(EngineSeries, OfUnknownEnginesHasAllSeriesAndNoPath) {
  EXPECT_TRUE(engine_named("ollama").metrics.path.empty());
  EXPECT_TRUE(engine_named("generic").metrics.path.empty());
  expect(reading_of("generic", "lmdeploy:num_requests_running{model_name=\"m\"} 3\n"),
         {.running = 3});
}

// ---- Unknown values --------------------------------------------------------------------------

TEST(EngineSeries, TreatsMissingValuesAsUnknownNotAsZero) {
  EXPECT_FALSE(reading_of("vllm", "").any());
  EXPECT_FALSE(reading_of("vllm", "<html>not found</html>\n").any());
  expect(reading_of("vllm", "vllm:num_requests_waiting 0.0\n"), {.waiting = 0});
}

TEST(EngineSeries, RejectsImpossibleValues) {
  const auto reading = reading_of("vllm",
                                  "vllm:num_requests_running NaN\n"
                                  "vllm:num_requests_waiting -1\n"
                                  "vllm:kv_cache_usage_perc 37\n");

  EXPECT_FALSE(reading.any());
}

TEST(EngineSeries, ClampsSlightlyMoreThanFull) {
  expect(reading_of("sglang", "sglang:token_usage 1.02\n"), {.kv_cache_ratio = 1});
}

// ---- Ports and paths
// --------------------------------------------------------------------------------------

TEST(MetricsPort, IsTheEnginesOwnBesideItsUsualPorts) {
  EXPECT_EQ(metrics_port_of(engine_named("triton"), 8000), 8002);
  EXPECT_EQ(metrics_port_of(engine_named("triton"), 8001), 8002);
  EXPECT_EQ(metrics_port_of(engine_named("triton"), 9000), 9000);
  EXPECT_EQ(metrics_port_of(engine_named("torchserve"), 8080), 8082);
  EXPECT_EQ(metrics_port_of(engine_named("mlserver"), 8081), 8082);
  EXPECT_EQ(metrics_port_of(engine_named("vllm"), 8000), 8000);
}

TEST(MetricsPath, IsNotPolledIfReadingConsumesItsData) {
  EXPECT_EQ(engine_named("trtllm").metrics.path, "/prometheus/metrics");
  EXPECT_TRUE(is_consumed_by_scrape(engine_named("trtllm"), "/metrics"));
  EXPECT_TRUE(is_consumed_by_scrape(engine_named("trtllm"), "/metrics/"));
  EXPECT_FALSE(is_consumed_by_scrape(engine_named("trtllm"), "/prometheus/metrics"));
  EXPECT_FALSE(is_consumed_by_scrape(engine_named("vllm"), "/metrics"));
}

}  // namespace
}  // namespace evenkeel
