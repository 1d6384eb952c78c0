#include "sim/dcgm.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "evenkeel/base/rng.h"
#include "sim/engine_page.h"

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

namespace {

void add_gpu_sample(EnginePage& page, const EngineSnapshot& r, std::uint32_t gpu, double value) {
  const std::string index = std::to_string(gpu);
  page.sample(value, {{"gpu", index},
                      {"UUID", gpu_uuid(r.gpu_seed, gpu)},
                      {"pci_bus_id", fmt::format("00000000:{:02X}:00.0", 0x18 + 0x10 * gpu)},
                      {"device", "nvidia" + index},
                      {"modelName", r.preset.gpu},
                      {"hostname", "sim"},
                      {"DCGM_FI_DRIVER_VERSION", "590.48.01"}});
}

}  // namespace

std::string render_dcgm(const EngineSnapshot& r) {
  constexpr double mebibyte = 1 << 20;
  const double total = static_cast<double>(r.preset.gpu_memory_bytes) / mebibyte;
  const double reserved = 600;
  const double used = gpu_used_bytes(r) / mebibyte;
  const double busy = r.gpu.utilization_ratio;
  EnginePage page;
  const auto samples = [&](double value) {
    for (std::uint32_t i = 0; i < r.preset.gpus; ++i) add_gpu_sample(page, r, i, value);
  };
  const auto gauge = [&](std::string_view name, std::string_view help, double value) {
    page.gauges(name, help);
    samples(value);
  };
  const auto counter = [&](std::string_view name, std::string_view help, double value) {
    page.counters(name, help);
    samples(value);
  };
  gauge("DCGM_FI_DEV_SM_CLOCK", "SM clock frequency (in MHz).", busy > 0 ? 1980 : 345);
  gauge("DCGM_FI_DEV_MEM_CLOCK", "Memory clock frequency (in MHz).", 2619);
  gauge("DCGM_FI_DEV_GPU_TEMP", "GPU temperature (in C).", std::round(33 + 35 * busy));
  gauge("DCGM_FI_DEV_POWER_USAGE", "Power draw (in W).", gpu_watts(r));
  counter("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "Total energy consumption since boot (in mJ).",
          std::floor(gpu_joules(r) * 1000));
  gauge("DCGM_FI_DEV_GPU_UTIL", "GPU utilization (in %).", std::round(busy * 100));
  gauge("DCGM_FI_DEV_MEM_COPY_UTIL", "Memory utilization (in %).", std::round(busy * 60));
  gauge("DCGM_FI_DEV_XID_ERRORS", "Value of the last XID error encountered.", 0);
  gauge("DCGM_FI_DEV_FB_FREE", "Framebuffer memory free (in MiB).",
        std::max(0.0, std::floor(total - reserved - used)));
  gauge("DCGM_FI_DEV_FB_USED", "Framebuffer memory used (in MiB).", std::floor(used));
  gauge("DCGM_FI_DEV_FB_RESERVED", "Framebuffer memory reserved (in MiB).", reserved);
  gauge("DCGM_FI_PROF_GR_ENGINE_ACTIVE", "Ratio of time the graphics engine is active.", busy);
  gauge("DCGM_FI_PROF_DRAM_ACTIVE", "Ratio of cycles the device memory interface is active.",
        busy * 0.7);
  return page.take();
}

}  // namespace evenkeel
