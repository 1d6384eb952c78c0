// Reads GPU exporters: NVIDIA's DCGM exporter, nvidia_gpu_exporter, AMD's device-metrics-exporter.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "evenkeel/inference/engine_metrics.h"
#include "evenkeel/inference/exposition.h"

namespace evenkeel {

/// One GPU, or one instance of a partitioned GPU (MIG). NaN: unknown.
struct GpuMetrics {
  std::string index;     ///< "0"; empty: unknown
  std::string instance;  ///< of MIG, or AMD's partition; empty: the whole GPU
  std::string uuid;      ///< as the exporter writes it; empty: unknown
  std::string host;      ///< empty: unknown
  double utilization_ratio = LoadSample::unknown;
  double memory_used_bytes = LoadSample::unknown;
  double memory_total_bytes = LoadSample::unknown;
};

/// True if a label of the file selects this GPU: its index, "0"; an instance of it, "0:7"; its
/// UUID, with or without "GPU-"; each also with its host in front, "node1/0".
bool is_selected(const GpuMetrics& gpu, std::string_view label);

/// The values of a server with these GPUs: mean utilization, sum of memory. No labels: all GPUs.
LoadSample aggregate_gpus(std::span<const GpuMetrics> gpus, std::span<const std::string> labels);

/// Parses one page of a GPU exporter, in pieces. The names of the series show which exporter it is.
class GpuMetricsReader final : private SampleSink {
 public:
  GpuMetricsReader();

  void read(std::string_view bytes) { reader_.read(bytes); }
  bool ended() const { return reader_.ended(); }
  bool has_partial_line() const { return reader_.has_partial_line(); }
  /// The GPUs in the order in which they first appear.
  std::vector<GpuMetrics> gpus() const;

 private:
  /// Enough for a hundred hosts behind one Prometheus; further GPUs are ignored.
  static constexpr std::size_t max_gpus = 1024;
  struct Gpu {
    GpuMetrics reading;
    double engine_active_ratio = LoadSample::unknown;
    double free_bytes = LoadSample::unknown;
    double reserved_bytes = LoadSample::unknown;
  };

  void sample(std::size_t name_index, const Sample& sample) override;
  Gpu* gpu_of(std::string_view labels);
  Gpu* find_gpu(const GpuMetrics& named);
  void index(std::size_t position);

  ExpositionReader reader_;
  std::vector<Gpu> gpus_;
  std::unordered_map<std::string, std::size_t> indices_;  // positions in gpus_, by identity
  std::string scratch_;
};

}  // namespace evenkeel
