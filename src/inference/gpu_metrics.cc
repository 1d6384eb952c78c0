#include "evenkeel/inference/gpu_metrics.h"

#include <algorithm>
#include <cmath>

#include "evenkeel/http/fields.h"
#include "inference/valid_values.h"

namespace evenkeel {
namespace {

/// The meaning of a series of a GPU exporter.
enum class GpuQuantity : std::uint8_t {
  utilization_ratio,
  engine_active_ratio,  // DCGM; its only utilization for instances of a GPU
  memory_used_bytes,
  memory_total_bytes,
  memory_free_bytes,
  memory_reserved_bytes,
  identity,  // nvidia_gpu_exporter: maps a UUID to an index, in labels
};

struct GpuSeries {
  std::string_view name;
  GpuQuantity quantity;
  double scale = 1;
};

constexpr GpuSeries all_series[] = {
    {"DCGM_FI_DEV_GPU_UTIL", GpuQuantity::utilization_ratio, percent},
    {"DCGM_FI_PROF_GR_ENGINE_ACTIVE", GpuQuantity::engine_active_ratio},
    {"DCGM_FI_DEV_FB_USED", GpuQuantity::memory_used_bytes, mebibyte},
    {"DCGM_FI_DEV_FB_FREE", GpuQuantity::memory_free_bytes, mebibyte},
    {"DCGM_FI_DEV_FB_RESERVED", GpuQuantity::memory_reserved_bytes, mebibyte},
    {"DCGM_FI_DEV_FB_TOTAL", GpuQuantity::memory_total_bytes, mebibyte},
    {"nvidia_smi_gpu_info", GpuQuantity::identity},
    {"nvidia_smi_utilization_gpu_ratio", GpuQuantity::utilization_ratio},
    {"nvidia_smi_memory_used_bytes", GpuQuantity::memory_used_bytes},
    {"nvidia_smi_memory_total_bytes", GpuQuantity::memory_total_bytes},
    // AMD's megabytes are MiB: an MI300X has 196592 of them.
    {"gpu_gfx_activity", GpuQuantity::utilization_ratio, percent},
    {"gpu_used_vram", GpuQuantity::memory_used_bytes, mebibyte},
    {"gpu_total_vram", GpuQuantity::memory_total_bytes, mebibyte},
    {"gpu_free_vram", GpuQuantity::memory_free_bytes, mebibyte},
    {"amd_gpu_gfx_activity", GpuQuantity::utilization_ratio, percent},
    {"amd_gpu_used_vram", GpuQuantity::memory_used_bytes, mebibyte},
    {"amd_gpu_total_vram", GpuQuantity::memory_total_bytes, mebibyte},
    {"amd_gpu_free_vram", GpuQuantity::memory_free_bytes, mebibyte},
};

const MetricNames& gpu_names() {
  static const MetricNames names([] {
    std::vector<std::string_view> all;
    for (const GpuSeries& series : all_series) all.push_back(series.name);
    return all;
  }());
  return names;
}

double bytes(double value) { return valid_or_unknown(value, max_memory_bytes); }

std::string_view without_prefix(std::string_view uuid) {
  if (uuid.size() > 4 && starts_with_ignore_case(uuid, "gpu-")) uuid.remove_prefix(4);
  return uuid;
}

/// The value of the first of these labels that a sample has.
std::string first_label(std::string_view labels, std::initializer_list<std::string_view> names,
                        std::string& scratch) {
  for (const std::string_view name : names) {
    if (const auto value = find_label(labels, name, scratch)) return std::string(*value);
  }
  return {};
}

/// What identifies a GPU: its UUID or its index.
enum class KeyKind : char { uuid = 'u', index = 'i' };
std::string key_of(KeyKind kind, const GpuMetrics& gpu) {
  std::string key(1, static_cast<char>(kind));
  const std::string& last = kind == KeyKind::uuid ? gpu.uuid : gpu.index;
  for (const std::string* part : {&gpu.host, &gpu.instance, &last}) {
    key += std::to_string(part->size());
    key += ':';
    key += *part;
  }
  return key;
}

}  // namespace

bool is_selected(const GpuMetrics& gpu, std::string_view label) {
  if (const std::size_t slash = label.rfind('/'); slash != std::string_view::npos) {
    if (gpu.host != label.substr(0, slash)) return false;
    label.remove_prefix(slash + 1);
  }
  if (label.empty()) return false;
  if (!gpu.uuid.empty() && equals_ignore_case(without_prefix(gpu.uuid), without_prefix(label))) {
    return true;
  }
  if (gpu.index.empty()) return false;
  const std::size_t colon = label.find(':');
  if (gpu.index != label.substr(0, colon)) return false;
  return colon == std::string_view::npos || gpu.instance == label.substr(colon + 1);
}

LoadSample aggregate_gpus(std::span<const GpuMetrics> gpus, std::span<const std::string> labels) {
  LoadSample total;
  double utilization = 0;
  int utilized = 0;
  const auto add = [](double& sum, double value) { sum = std::isnan(sum) ? value : sum + value; };
  for (const GpuMetrics& gpu : gpus) {
    const auto meant = [&](const std::string& label) { return is_selected(gpu, label); };
    if (!labels.empty() && std::ranges::none_of(labels, meant)) continue;
    if (!std::isnan(gpu.utilization_ratio)) {
      utilization += gpu.utilization_ratio;
      ++utilized;
    }
    // Both or none: used and total must cover the same GPUs.
    if (std::isnan(gpu.memory_used_bytes) || std::isnan(gpu.memory_total_bytes)) continue;
    add(total.gpu_memory_used_bytes, gpu.memory_used_bytes);
    add(total.gpu_memory_total_bytes, gpu.memory_total_bytes);
  }
  if (utilized > 0) total.gpu_utilization_ratio = utilization / utilized;
  return total;
}

GpuMetricsReader::GpuMetricsReader() : reader_(gpu_names(), *this) {}

/// The GPU of a sample: a new one if its labels are new.
GpuMetricsReader::Gpu* GpuMetricsReader::gpu_of(std::string_view labels) {
  GpuMetrics named{
      .index = first_label(labels, {"gpu", "index", "gpu_id"}, scratch_),
      .instance = first_label(labels, {"GPU_I_ID", "gpu_partition_id"}, scratch_),
      .uuid = first_label(labels, {"UUID", "uuid", "gpu_uuid"}, scratch_),
      .host = first_label(labels, {"hostname", "Hostname"}, scratch_),
  };
  if (Gpu* const same = find_gpu(named)) {
    if (same->reading.index.empty() && !named.index.empty()) {
      same->reading.index = std::move(named.index);
      index(static_cast<std::size_t>(same - gpus_.data()));
    }
    return same;
  }
  if (gpus_.size() == max_gpus) return nullptr;
  gpus_.push_back(Gpu{.reading = std::move(named)});
  index(gpus_.size() - 1);
  return &gpus_.back();
}

/// The GPU with the same UUID; if one of the two has none, that with the same index.
GpuMetricsReader::Gpu* GpuMetricsReader::find_gpu(const GpuMetrics& named) {
  if (!named.uuid.empty()) {
    const auto same = indices_.find(key_of(KeyKind::uuid, named));
    if (same != indices_.end()) return &gpus_[same->second];
  }
  const auto same = indices_.find(key_of(KeyKind::index, named));
  if (same == indices_.end()) return nullptr;
  Gpu& gpu = gpus_[same->second];
  return named.uuid.empty() || gpu.reading.uuid.empty() ? &gpu : nullptr;
}

void GpuMetricsReader::index(std::size_t position) {
  const GpuMetrics& gpu = gpus_[position].reading;
  if (!gpu.uuid.empty()) indices_.try_emplace(key_of(KeyKind::uuid, gpu), position);
  indices_.try_emplace(key_of(KeyKind::index, gpu), position);
}

void GpuMetricsReader::sample(std::size_t name_index, const Sample& sample) {
  Gpu* gpu = gpu_of(sample.labels);
  if (gpu == nullptr) return;
  const GpuSeries& series = all_series[name_index];
  const double value = sample.value * series.scale;
  switch (series.quantity) {
    case GpuQuantity::utilization_ratio: gpu->reading.utilization_ratio = valid_ratio(value); break;
    case GpuQuantity::engine_active_ratio: gpu->engine_active_ratio = valid_ratio(value); break;
    case GpuQuantity::memory_used_bytes: gpu->reading.memory_used_bytes = bytes(value); break;
    case GpuQuantity::memory_total_bytes: gpu->reading.memory_total_bytes = bytes(value); break;
    case GpuQuantity::memory_free_bytes: gpu->free_bytes = bytes(value); break;
    case GpuQuantity::memory_reserved_bytes: gpu->reserved_bytes = bytes(value); break;
    case GpuQuantity::identity: break;
  }
}

std::vector<GpuMetrics> GpuMetricsReader::gpus() const {
  std::vector<GpuMetrics> readings;
  readings.reserve(gpus_.size());
  for (const Gpu& gpu : gpus_) {
    GpuMetrics& reading = readings.emplace_back(gpu.reading);
    if (std::isnan(reading.utilization_ratio)) reading.utilization_ratio = gpu.engine_active_ratio;
    if (std::isnan(reading.memory_total_bytes)) {
      const double reserved = std::isnan(gpu.reserved_bytes) ? 0 : gpu.reserved_bytes;
      reading.memory_total_bytes = reading.memory_used_bytes + gpu.free_bytes + reserved;
    }
  }
  return readings;
}

}  // namespace evenkeel
