#include "sim/dcgm.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "evenkeel/base/rng.h"
#include "sim/exposition_writer.h"

namespace evenkeel {

std::string gpu_uuid(std::uint64_t seed, std::uint32_t index) {
  const std::uint64_t high = mix(seed * 64 + index + 1);
  const std::uint64_t low = mix(high + 1);
  return fmt::format("GPU-{:08x}-{:04x}-{:04x}-{:04x}-{:012x}", high >> 32, (high >> 16) & 0xffff,
                     high & 0xffff, low >> 48, low & 0xffffffffffff);
}

double gpu_used_bytes(const EngineSnapshot& r) {
  return r.gpu.memory_ratio * static_cast<double>(r.preset.gpu_memory_bytes);
}

double gpu_watts(const EngineSnapshot& r) {
  return r.preset.idle_watts +
         (r.preset.full_watts - r.preset.idle_watts) * r.gpu.utilization_ratio;
}

double gpu_joules(const EngineSnapshot& r) {
  return r.preset.idle_watts * r.gpu.uptime_seconds +
         (r.preset.full_watts - r.preset.idle_watts) * r.gpu.busy_seconds;
}

std::string render_dcgm(const EngineSnapshot& r) {
  constexpr double mebibyte = 1 << 20;
  const double total = static_cast<double>(r.preset.gpu_memory_bytes) / mebibyte;
  const double reserved = 600;
  const double used = gpu_used_bytes(r) / mebibyte;
  const double busy = r.gpu.utilization_ratio;
  ExpositionWriter out;
  const auto each = [&](std::string_view name, std::string_view type, std::string_view help,
                        double value) {
    out.write_family(name, type, help);
    for (std::uint32_t i = 0; i < r.preset.gpus; ++i) {
      out.sample(
          name, value,
          fmt::format("gpu=\"{0}\",{1},pci_bus_id=\"00000000:{2:02X}:00.0\",device=\"nvidia{0}\","
                      "{3},hostname=\"sim\",DCGM_FI_DRIVER_VERSION=\"590.48.01\"",
                      i, label("UUID", gpu_uuid(r.gpu_seed, i)), 0x18 + 0x10 * i,
                      label("modelName", r.preset.gpu)));
    }
  };
  each("DCGM_FI_DEV_SM_CLOCK", "gauge", "SM clock frequency (in MHz).", busy > 0 ? 1980 : 345);
  each("DCGM_FI_DEV_MEM_CLOCK", "gauge", "Memory clock frequency (in MHz).", 2619);
  each("DCGM_FI_DEV_GPU_TEMP", "gauge", "GPU temperature (in C).", std::round(33 + 35 * busy));
  each("DCGM_FI_DEV_POWER_USAGE", "gauge", "Power draw (in W).", gpu_watts(r));
  each("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "counter",
       "Total energy consumption since boot (in mJ).", std::floor(gpu_joules(r) * 1000));
  each("DCGM_FI_DEV_GPU_UTIL", "gauge", "GPU utilization (in %).", std::round(busy * 100));
  each("DCGM_FI_DEV_MEM_COPY_UTIL", "gauge", "Memory utilization (in %).", std::round(busy * 60));
  each("DCGM_FI_DEV_XID_ERRORS", "gauge", "Value of the last XID error encountered.", 0);
  each("DCGM_FI_DEV_FB_FREE", "gauge", "Framebuffer memory free (in MiB).",
       std::max(0.0, std::floor(total - reserved - used)));
  each("DCGM_FI_DEV_FB_USED", "gauge", "Framebuffer memory used (in MiB).", std::floor(used));
  each("DCGM_FI_DEV_FB_RESERVED", "gauge", "Framebuffer memory reserved (in MiB).", reserved);
  each("DCGM_FI_PROF_GR_ENGINE_ACTIVE", "gauge", "Ratio of time the graphics engine is active.",
       busy);
  each("DCGM_FI_PROF_DRAM_ACTIVE", "gauge",
       "Ratio of cycles the device memory interface is active.", busy * 0.7);
  return out.take();
}

}  // namespace evenkeel
