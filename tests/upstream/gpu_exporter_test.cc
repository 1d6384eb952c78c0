#include "upstream/gpu_exporter.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>

#include "upstream/polling.h"

namespace evenkeel {
namespace {

using namespace std::chrono_literals;

constexpr const char* two_gpus =
    "DCGM_FI_DEV_GPU_UTIL{gpu=\"0\",UUID=\"GPU-a\",hostname=\"n\"} 87\n"
    "DCGM_FI_DEV_GPU_UTIL{gpu=\"1\",UUID=\"GPU-b\",hostname=\"n\"} 3\n"
    "DCGM_FI_DEV_FB_USED{gpu=\"0\",UUID=\"GPU-a\",hostname=\"n\"} 70\n"
    "DCGM_FI_DEV_FB_USED{gpu=\"1\",UUID=\"GPU-b\",hostname=\"n\"} 10\n"
    "DCGM_FI_DEV_FB_FREE{gpu=\"0\",UUID=\"GPU-a\",hostname=\"n\"} 30\n"
    "DCGM_FI_DEV_FB_FREE{gpu=\"1\",UUID=\"GPU-b\",hostname=\"n\"} 90\n";

constexpr double mebibyte = 1024 * 1024;

TEST(GpuExporter, IsPolledOnceForAllBackends) {
  Loop loop;
  GpuExporters exporters(loop, resolve_at_once, 1);
  ExpositionServer engine(loop, vllm_saying(4, 3, 0.5));
  ExpositionServer exporter(loop, two_gpus);
  auto first = poll_spec("vllm");
  first.config.gpu = exporter.url();
  first.gpus = {"0"};
  auto second = first;
  second.gpus = {"n/1"};

  Polling one(loop, first, engine.endpoint(), {}, &exporters);
  Polling other(loop, second, engine.endpoint(), {}, &exporters);
  const auto both = [&] {
    return one.values().running == 4 && !std::isnan(one.values().gpu_memory_used_bytes) &&
           !std::isnan(other.values().gpu_memory_used_bytes);
  };
  ASSERT_TRUE(one.until(both));

  EXPECT_DOUBLE_EQ(one.values().gpu_utilization_ratio, 0.87);
  EXPECT_EQ(one.values().gpu_memory_used_bytes, 70 * mebibyte);
  EXPECT_EQ(one.values().gpu_memory_total_bytes, 100 * mebibyte);
  EXPECT_DOUBLE_EQ(other.values().gpu_utilization_ratio, 0.03);
  EXPECT_EQ(other.values().gpu_memory_used_bytes, 10 * mebibyte);
  EXPECT_EQ(exporter.connections(), 1u);
  ASSERT_TRUE(one.poller->status().gpu_exporter);
  EXPECT_EQ(one.poller->status().gpu_exporter->state, PollRecord::State::fresh);

  one.poller.reset();
  exporter.body = "DCGM_FI_DEV_GPU_UTIL{gpu=\"1\",UUID=\"GPU-b\",hostname=\"n\"} 50\n";
  ASSERT_TRUE(other.until([&] { return other.values().gpu_utilization_ratio == 0.5; }))
      << "it continues for the remaining users";
}

TEST(GpuExporter, ReportsMissingGpus) {
  Loop loop;
  ExpositionServer exporter(loop, two_gpus);
  auto spec = poll_spec("generic");
  spec.config.gpu = exporter.url();
  spec.gpus = {"elsewhere/0"};
  Polling polling(loop, spec, closed_endpoint());

  ASSERT_TRUE(polling.until(
      [&] { return polling.poller->status().gpu_exporter->state == PollRecord::State::failing; }));

  EXPECT_EQ(polling.poller->status().gpu_exporter->reason,
            "the exporter has no values for these GPUs");
}

TEST(GpuExporter, ExpiresIndependentlyOfTheEngine) {
  Loop loop;
  ExpositionServer engine(loop, vllm_saying(4, 3, 0.5));
  ExpositionServer exporter(loop, two_gpus);
  auto spec = poll_spec("vllm");
  spec.config.gpu = exporter.url();
  spec.config.timeout = 50ms;
  Polling polling(loop, spec, engine.endpoint());
  ASSERT_TRUE(polling.until([&] {
    return polling.values().running == 4 && !std::isnan(polling.values().gpu_memory_used_bytes);
  }));

  exporter.close();
  ASSERT_TRUE(polling.until([&] { return std::isnan(polling.values().gpu_memory_used_bytes); }));

  EXPECT_EQ(polling.values().running, 4);
  EXPECT_EQ(polling.poller->status().engine.state, PollRecord::State::fresh);
  EXPECT_EQ(polling.poller->status().gpu_exporter->state, PollRecord::State::failing);
}

TEST(GpuExporter, WorksWithoutAnEnginePage) {
  Loop loop;
  ExpositionServer exporter(loop, two_gpus);
  auto spec = poll_spec("generic");
  spec.config.gpu = exporter.url();
  Polling polling(loop, spec, closed_endpoint());

  ASSERT_TRUE(
      polling.until([&] { return polling.values().gpu_memory_used_bytes == 80 * mebibyte; }));

  EXPECT_TRUE(polling.age().has_value());
  EXPECT_EQ(polling.poller->status().engine.state, PollRecord::State::silent);
}

}  // namespace
}  // namespace evenkeel
