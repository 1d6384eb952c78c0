// What GPU exporters say: NVIDIA's DCGM exporter, nvidia_gpu_exporter, AMD's
// device-metrics-exporter.
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

/// One GPU, or one instance of a GPU that is cut into several (MIG). NaN: unknown.
struct GpuReading {
  std::string index;     ///< "0"; empty: not told
  std::string instance;  ///< of MIG, or AMD's partition; empty: the whole GPU
  std::string uuid;      ///< as the exporter writes it; empty: not told
  std::string host;      ///< empty: not told
  double utilization_ratio = EngineReading::unknown;
  double memory_used_bytes = EngineReading::unknown;
  double memory_total_bytes = EngineReading::unknown;
};

/// Whether people mean this GPU: by its index, "0"; by an instance of it, "0:7"; by its UUID, with
/// or without "GPU-"; each also with its host before it, "node1/0".
bool is_meant(const GpuReading& gpu, std::string_view label);

/// What a server has whose GPUs are these: mean utilisation, memory summed. No labels: all GPUs.
EngineReading sum_up(std::span<const GpuReading> gpus, std::span<const std::string> labels);

/// Reads one exposition of a GPU exporter, in pieces; which exporter it is shows in the names.
class GpuMetricsReader final : private SampleSink {
 public:
  GpuMetricsReader();

  void read(std::string_view bytes) { reader_.read(bytes); }
  bool ended() const { return reader_.ended(); }
  bool in_mid_line() const { return reader_.in_mid_line(); }
  /// In the order in which they were first named.
  std::vector<GpuReading> gpus() const;

 private:
  /// Those of a hundred hosts behind one Prometheus; the rest is passed over.
  static constexpr std::size_t most_gpus = 1024;
  struct Gpu {
    GpuReading reading;
    double engine_active_ratio = EngineReading::unknown;
    double free_bytes = EngineReading::unknown;
    double reserved_bytes = EngineReading::unknown;
  };

  void sample(std::size_t which, const Sample& sample) override;
  Gpu* gpu_of(std::string_view labels);
  Gpu* known(const GpuReading& named);
  void index(std::size_t place);

  ExpositionReader reader_;
  std::vector<Gpu> gpus_;
  std::unordered_map<std::string, std::size_t> places_;  // in gpus_, by what identifies one
  std::string scratch_;
};

}  // namespace evenkeel
