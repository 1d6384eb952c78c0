#include "evenkeel/inference/token_estimates.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <optional>

#include "evenkeel/base/hash.h"

namespace evenkeel {
namespace {

/// The share of a prompt of `full_weight_bytes` or more in the average; shorter ones have less. The
/// first such prompt counts alone: it tells more than the default and short ones.
constexpr double weight = 0.1;
constexpr double full_weight_bytes = 1024;
/// What a tokenizer can do; anything else is a miscount.
constexpr double min_bytes_per_token = 0.5;
constexpr double max_bytes_per_token = 32;
/// Smaller changes are not worth a write to memory that all workers read.
constexpr double min_change = 0.002;

/// The sign of the float is free for a flag: ratios are positive.
struct Known {
  double ratio = 0;
  bool rough = false;  // from short prompts alone
};

std::uint64_t entry_of(std::uint64_t hash, Known known) {
  const auto ratio = static_cast<float>(known.rough ? -known.ratio : known.ratio);
  return (hash & ~std::uint64_t{0xffff'ffff}) | std::bit_cast<std::uint32_t>(ratio);
}

std::optional<Known> known_in(std::uint64_t entry, std::uint64_t hash) {
  if (entry == 0 || entry >> 32 != hash >> 32) return std::nullopt;
  const auto ratio = std::bit_cast<float>(static_cast<std::uint32_t>(entry));
  return Known{.ratio = std::abs(ratio), .rough = ratio < 0};
}

}  // namespace

double TokenEstimates::bytes_per_token(std::string_view model) const {
  const std::uint64_t hash = hash_of(model);
  const auto entry = entries_[hash % entries_.size()].load(std::memory_order_relaxed);
  return known_in(entry, hash).value_or(Known{.ratio = default_bytes_per_token}).ratio;
}

std::uint64_t TokenEstimates::prompt_tokens_of(const InferenceRequest& request) const {
  const double text = static_cast<double>(request.prompt_bytes) / bytes_per_token(request.model);
  return request.prompt_tokens + request.images * tokens_per_image +
         static_cast<std::uint64_t>(std::ceil(text));
}

void TokenEstimates::learn(const InferenceRequest& request, std::uint64_t prompt_tokens) {
  const bool text_alone = request.images == 0 && request.prompt_tokens == 0;
  if (!request.complete || !text_alone || request.prompt_bytes < min_learned_bytes) return;
  const auto bytes = static_cast<double>(request.prompt_bytes);
  if (prompt_tokens == 0) return;
  const double sample = std::clamp(bytes / static_cast<double>(prompt_tokens), min_bytes_per_token,
                                   max_bytes_per_token);
  const std::uint64_t hash = hash_of(request.model);
  std::atomic<std::uint64_t>& entry = entries_[hash % entries_.size()];
  const auto known = known_in(entry.load(std::memory_order_relaxed), hash);
  const Known before = known.value_or(Known{.ratio = default_bytes_per_token, .rough = true});
  const bool is_long = bytes >= full_weight_bytes;
  Known after{.ratio = sample, .rough = false};
  if (!before.rough || !is_long) {
    const double share = weight * std::min(1.0, bytes / full_weight_bytes);
    after = {.ratio = before.ratio + share * (sample - before.ratio), .rough = before.rough};
    if (known && std::abs(after.ratio - before.ratio) < min_change * before.ratio) return;
  }
  entry.store(entry_of(hash, after), std::memory_order_relaxed);
}

std::vector<TokenEstimates::Learned> TokenEstimates::learned() const {
  std::vector<Learned> learned;
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    const std::uint64_t entry = entries_[i].load(std::memory_order_relaxed);
    const std::uint64_t model = (entry & ~std::uint64_t{0xffff'ffff}) | i;
    const auto known = known_in(entry, model);
    if (known)
      learned.push_back({.model = model, .bytes_per_token = known->ratio, .rough = known->rough});
  }
  return learned;
}

void TokenEstimates::restore(const std::vector<Learned>& learned) {
  for (const Learned& each : learned) {
    const double ratio = each.bytes_per_token;
    if (!(ratio >= min_bytes_per_token && ratio <= max_bytes_per_token)) continue;
    entries_[each.model % entries_.size()].store(
        entry_of(each.model, {.ratio = ratio, .rough = each.rough}), std::memory_order_relaxed);
  }
}

}  // namespace evenkeel
