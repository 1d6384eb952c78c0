#include "evenkeel/inference/gpu_metrics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <ctime>
#include <string>
#include <string_view>
#include <vector>

namespace evenkeel {
namespace {

constexpr double mebibyte = 1024 * 1024;

std::vector<GpuMetrics> gpus_of(std::string_view text) {
  GpuMetricsReader reader;
  reader.read(text);
  return reader.gpus();
}

LoadSample summed(std::string_view text, const std::vector<std::string>& labels) {
  return aggregate_gpus(gpus_of(text), labels);
}

constexpr std::string_view dcgm =
    "# HELP DCGM_FI_DEV_GPU_UTIL GPU utilization (in %).\n"
    "# TYPE DCGM_FI_DEV_GPU_UTIL gauge\n"
    "DCGM_FI_DEV_GPU_UTIL{gpu=\"0\",UUID=\"GPU-604ac76c\",device=\"nvidia0\",hostname=\"node1\"} "
    "87\n"
    "DCGM_FI_DEV_GPU_UTIL{gpu=\"1\",UUID=\"GPU-7d5c0ac5\",device=\"nvidia1\",hostname=\"node1\"} "
    "3\n"
    "DCGM_FI_DEV_FB_FREE{gpu=\"0\",UUID=\"GPU-604ac76c\",device=\"nvidia0\",hostname=\"node1\"} "
    "6000\n"
    "DCGM_FI_DEV_FB_FREE{gpu=\"1\",UUID=\"GPU-7d5c0ac5\",device=\"nvidia1\",hostname=\"node1\"} "
    "80000\n"
    "DCGM_FI_DEV_FB_USED{gpu=\"0\",UUID=\"GPU-604ac76c\",device=\"nvidia0\",hostname=\"node1\"} "
    "74211\n"
    "DCGM_FI_DEV_FB_USED{gpu=\"1\",UUID=\"GPU-7d5c0ac5\",device=\"nvidia1\",hostname=\"node1\"} "
    "1000\n"
    "DCGM_FI_DEV_FB_RESERVED{gpu=\"0\",UUID=\"GPU-604ac76c\",hostname=\"node1\"} 400\n"
    "DCGM_FI_DEV_MEMORY_TEMP{gpu=\"0\",UUID=\"GPU-604ac76c\"} 9223372036854775794\n";

TEST(Dcgm, IsReadInRatiosAndBytes) {
  const auto gpus = gpus_of(dcgm);

  ASSERT_EQ(gpus.size(), 2u);
  EXPECT_EQ(gpus[0].index, "0");
  EXPECT_EQ(gpus[0].host, "node1");
  EXPECT_DOUBLE_EQ(gpus[0].utilization_ratio, 0.87);
  EXPECT_EQ(gpus[0].memory_used_bytes, 74211 * mebibyte);
  EXPECT_EQ(gpus[0].memory_total_bytes, (74211 + 6000 + 400) * mebibyte);
  EXPECT_EQ(gpus[1].memory_total_bytes, 81000 * mebibyte)
      << "older versions have no reserved memory";
}

std::string dcgm_of(int gpus, int samples) {
  std::string text;
  for (int i = 0; i < samples; ++i) {
    const std::string number = std::to_string(i % gpus);
    text += "DCGM_FI_DEV_FB_USED{gpu=\"" + number + "\",UUID=\"GPU-" + number +
            "\",hostname=\"node\"} " + number + "\n";
  }
  return text;
}

TEST(Dcgm, OfManyGpusIsReadAsFastAsOfFew) {
  const auto took = [](const std::string& text) {
    const std::clock_t began = std::clock();  // CPU time of this process
    const auto gpus = gpus_of(text);
    for (std::size_t i = 0; i < gpus.size(); ++i) {
      EXPECT_EQ(gpus[i].memory_used_bytes, static_cast<double>(i) * mebibyte);
    }
    return static_cast<double>(std::clock() - began);
  };
  const double few = took(dcgm_of(8, 100'000));
  const double many = took(dcgm_of(1024, 100'000));
  EXPECT_LT(many, 4 * few);
  EXPECT_EQ(gpus_of(dcgm_of(5000, 5000)).size(), 1024u);
}

TEST(Dcgm, ReportsEachServersGpus) {
  EXPECT_EQ(summed(dcgm, {"1"}).gpu_memory_used_bytes, 1000 * mebibyte);
  EXPECT_EQ(summed(dcgm, {"node1/1"}).gpu_memory_used_bytes, 1000 * mebibyte);
  EXPECT_EQ(summed(dcgm, {"GPU-604ac76c"}).gpu_memory_used_bytes, 74211 * mebibyte);
  EXPECT_EQ(summed(dcgm, {"0", "1"}).gpu_memory_used_bytes, 75211 * mebibyte);
  EXPECT_DOUBLE_EQ(summed(dcgm, {}).gpu_utilization_ratio, 0.45);
  EXPECT_FALSE(summed(dcgm, {"node2/0"}).any());
  EXPECT_FALSE(summed(dcgm, {"10"}).any());
}

TEST(Dcgm, HasBlanksThatAreNoValues) {
  const auto gpus = gpus_of(
      "DCGM_FI_DEV_GPU_UTIL{gpu=\"0\"} 2147483632\n"
      "DCGM_FI_DEV_FB_USED{gpu=\"0\"} 9223372036854775794\n"
      "DCGM_FI_DEV_FB_FREE{gpu=\"0\"} 140737488355328\n");

  ASSERT_EQ(gpus.size(), 1u);
  EXPECT_TRUE(std::isnan(gpus[0].utilization_ratio));
  EXPECT_TRUE(std::isnan(gpus[0].memory_used_bytes));
  EXPECT_TRUE(std::isnan(gpus[0].memory_total_bytes));
}

TEST(Dcgm, DistinguishesInstancesOfAGpu) {
  constexpr std::string_view cut =
      "DCGM_FI_PROF_GR_ENGINE_ACTIVE{gpu=\"0\",UUID=\"GPU-a\",GPU_I_ID=\"7\"} 0.5\n"
      "DCGM_FI_PROF_GR_ENGINE_ACTIVE{gpu=\"0\",UUID=\"GPU-a\",GPU_I_ID=\"8\"} 0.1\n"
      "DCGM_FI_DEV_FB_USED{gpu=\"0\",UUID=\"GPU-a\",GPU_I_ID=\"7\"} 10\n"
      "DCGM_FI_DEV_FB_FREE{gpu=\"0\",UUID=\"GPU-a\",GPU_I_ID=\"7\"} 10\n";

  EXPECT_DOUBLE_EQ(summed(cut, {"0:7"}).gpu_utilization_ratio, 0.5);
  EXPECT_EQ(summed(cut, {"0:7"}).gpu_memory_total_bytes, 20 * mebibyte);
  EXPECT_DOUBLE_EQ(summed(cut, {"0:8"}).gpu_utilization_ratio, 0.1);
  EXPECT_FALSE(summed(cut, {"0:9"}).any());
}

TEST(NvidiaGpuExporter, IsReadByIndexAndByUuid) {
  constexpr std::string_view text =
      "nvidia_smi_gpu_info{cuda_version=\"11.4\",name=\"RTX\",uuid=\"df6e7a7c\",index=\"0\"} 1\n"
      "nvidia_smi_gpu_info{cuda_version=\"11.4\",name=\"RTX\",uuid=\"0123abcd\",index=\"1\"} 1\n"
      "nvidia_smi_memory_total_bytes{uuid=\"df6e7a7c\"} 150754820096\n"
      "nvidia_smi_memory_total_bytes{uuid=\"0123abcd\"} 8589934592\n"
      "nvidia_smi_memory_used_bytes{uuid=\"df6e7a7c\"} 33934016512\n"
      "nvidia_smi_memory_used_bytes{uuid=\"0123abcd\"} 1048576\n"
      "nvidia_smi_utilization_gpu_ratio{uuid=\"df6e7a7c\"} 1\n"
      "nvidia_smi_utilization_memory_ratio{uuid=\"df6e7a7c\"} 0.3\n";

  EXPECT_EQ(summed(text, {"0"}).gpu_memory_used_bytes, 33934016512.0);
  EXPECT_EQ(summed(text, {"0"}).gpu_memory_total_bytes, 150754820096.0);
  EXPECT_EQ(summed(text, {"0"}).gpu_utilization_ratio, 1);
  EXPECT_EQ(summed(text, {"GPU-DF6E7A7C"}).gpu_utilization_ratio, 1);
  EXPECT_TRUE(std::isnan(summed(text, {"1"}).gpu_utilization_ratio));
}

TEST(NvidiaGpuExporter, MayNameAGpuAfterItsValues) {
  constexpr std::string_view text =
      "nvidia_smi_utilization_gpu_ratio{uuid=\"df6e7a7c\"} 0.5\n"
      "nvidia_smi_gpu_info{uuid=\"df6e7a7c\",index=\"3\"} 1\n";

  EXPECT_EQ(summed(text, {"3"}).gpu_utilization_ratio, 0.5);
}

TEST(AmdExporter, IsReadWithAndWithoutItsPrefix) {
  constexpr std::string_view text =
      "gpu_gfx_activity{card_model=\"x\",gpu_id=\"0\",gpu_partition_id=\"0\",hostname=\"n\"} 40\n"
      "gpu_used_vram{card_model=\"x\",gpu_id=\"0\",gpu_partition_id=\"0\",hostname=\"n\"} 1024\n"
      "gpu_total_vram{card_model=\"x\",gpu_id=\"0\",gpu_partition_id=\"0\",hostname=\"n\"} "
      "196592\n";

  const auto reading = summed(text, {"0"});
  EXPECT_DOUBLE_EQ(reading.gpu_utilization_ratio, 0.4);
  EXPECT_EQ(reading.gpu_memory_used_bytes, 1024 * mebibyte);
  EXPECT_EQ(reading.gpu_memory_total_bytes, 196592 * mebibyte);
  EXPECT_DOUBLE_EQ(summed("amd_gpu_gfx_activity{gpu_id=\"0\"} 40\n", {}).gpu_utilization_ratio,
                   0.4);
}

TEST(AmdExporter, HasNoMemoryIfItReportsNone) {
  constexpr std::string_view text =
      "gpu_gfx_activity{gpu_id=\"0\"} 40\ngpu_total_vram{gpu_id=\"0\"} 196592\n";

  EXPECT_TRUE(std::isnan(summed(text, {}).gpu_memory_used_bytes));
  EXPECT_TRUE(std::isnan(summed(text, {}).gpu_memory_total_bytes));
}

TEST(GpuExposition, ThatIsNoneHasNoGpus) {
  EXPECT_TRUE(gpus_of("node_load1 0.5\nDCGM_FI_DEV_SM_CLOCK{gpu=\"0\"} 1980\n").empty());
}

}  // namespace
}  // namespace evenkeel
