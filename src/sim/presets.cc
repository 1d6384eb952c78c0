#include "evenkeel/sim/presets.h"

namespace evenkeel {
namespace {

constexpr std::uint64_t memory_80gb = 80ull << 30;
constexpr const char* llama_8b = "meta-llama/Llama-3.1-8B-Instruct";
constexpr const char* llama_70b = "meta-llama/Llama-3.1-70B-Instruct";
constexpr const char* h100_name = "NVIDIA H100 80GB HBM3";
constexpr double ms = 1e-3;

struct Speed {
  double weights;            // T_mem: bytes of weights / bandwidth
  double per_token;          // T_lin
  double per_context_token;  // T_kv: bytes of keys and values of a token / bandwidth
  double overhead = 2 * ms;  // T_ovh
};

EngineSpec engine_of(const Speed& speed, bool a100, std::uint32_t kv_blocks) {
  // vLLM's defaults by GPU class: A100 and all below 70 GiB, and the newer ones.
  return {
      .max_batched_tokens = a100 ? 2048u : 8192u,
      .max_sequences = a100 ? 256u : 1024u,
      .kv_blocks = kv_blocks,
      .cost = {.weights = speed.weights,
               .per_token = speed.per_token,
               .overhead = speed.overhead,
               .per_context_token = speed.per_context_token,
               .per_prefill_context_token = speed.per_context_token},
  };
}

Preset measured(std::string name, const char* model, bool a100, std::uint32_t gpus,
                const Speed& speed, std::uint32_t kv_blocks) {
  return {.name = std::move(name),
          .model = model,
          .gpu = a100 ? "NVIDIA A100-SXM4-80GB" : h100_name,
          .gpus = gpus,
          .gpu_memory_bytes = memory_80gb,
          .idle_watts = a100 ? 60.0 : 70.0,
          .full_watts = a100 ? 400.0 : 700.0,
          .engine = engine_of(speed, a100, kv_blocks)};
}

Preset reference(std::string name, std::uint32_t blocks) {
  return {.name = std::move(name),
          .model = llama_8b,
          .gpu = h100_name,
          .gpu_memory_bytes = memory_80gb,
          .idle_watts = 70,
          .full_watts = 700,
          .engine = {.max_batched_tokens = 8192,
                     .max_sequences = 256,
                     .block_tokens = 512,
                     .kv_blocks = blocks + 1,
                     .max_model_tokens = 1'000'000,  // the simulations had no limit
                     .watermark_ratio = 0.01,
                     .evict_empty_blocks_first = true,
                     .allocate_whole_prompts = true,
                     .cost = {.overhead = 16 * ms,
                              .per_context_token = 5.6e-8,
                              .per_prefill_token = 45e-6,
                              .per_decode = 30e-6,
                              .per_attention_pair = 1.3e-9}}};
}

std::vector<Preset> all_presets() {
  // Keys and values of a token: 131 072 bytes for 8B, 327 680 for 70B (split over the GPUs); 2.0
  // TB/s (A100) and 3.35 TB/s (H100) each.
  return {
      measured("llama-3-8b-a100", llama_8b, true, 1,
               {.weights = 10 * ms, .per_token = 0.068 * ms, .per_context_token = 131'072 / 2.0e12},
               25'272),
      measured("llama-3-8b-h100", llama_8b, false, 1,
               {.weights = 6 * ms, .per_token = 0.031 * ms, .per_context_token = 131'072 / 3.35e12},
               25'272),
      measured(
          "llama-3-70b-a100-tp4", llama_70b, true, 4,
          {.weights = 25 * ms, .per_token = 0.16 * ms, .per_context_token = 327'680 / (4 * 2.0e12)},
          27'656),
      measured("llama-3-70b-a100-tp8", llama_70b, true, 8,
               {.weights = 14.5 * ms,
                .per_token = 0.088 * ms,
                .per_context_token = 327'680 / (8 * 2.0e12)},
               80'216),
      measured("llama-3-70b-h100-tp8", llama_70b, false, 8,
               {.weights = 9 * ms,
                .per_token = 0.04 * ms,
                .per_context_token = 327'680 / (8 * 3.35e12),
                .overhead = 6 * ms},  // 4 ms of it for all-reduce
               80'216),
      reference("reference", 586),
      reference("reference-large-kv", 2000),
  };
}

}  // namespace

const std::vector<Preset>& presets() {
  static const std::vector<Preset> all = all_presets();
  return all;
}

const Preset* find_preset(std::string_view name) {
  for (const Preset& preset : presets()) {
    if (preset.name == name) return &preset;
  }
  return nullptr;
}

std::vector<std::string> preset_names() {
  std::vector<std::string> names;
  for (const Preset& preset : presets()) names.push_back(preset.name);
  return names;
}

}  // namespace evenkeel
