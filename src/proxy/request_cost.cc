#include "proxy/request_cost.h"

#include <algorithm>
#include <charconv>
#include <limits>

#include "evenkeel/base/hash.h"
#include "evenkeel/config/config.h"

namespace evenkeel {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds max_target = std::chrono::hours(1);

/// Nothing unless it is a whole number of milliseconds, from 1 to an hour.
std::optional<Duration> named_target(const Request& request, std::string_view field) {
  const auto value = request.fields.value(field);
  if (!value) return std::nullopt;
  std::uint32_t number = 0;
  const char* const end = value->data() + value->size();
  const auto [stopped, error] = std::from_chars(value->data(), end, number);
  if (error != std::errc() || stopped != end || number == 0) return std::nullopt;
  const milliseconds target(number);
  return target <= max_target ? std::optional<Duration>(target) : std::nullopt;
}

std::optional<Duration> target_of(milliseconds target) {
  if (target == milliseconds{}) return std::nullopt;
  return target;
}

/// Tokens of a block of the prompt, by those of the whole.
double tokens_per_block(const InferenceRequest& asked) {
  constexpr double usual = InferenceRequest::block_bytes / 4.0;
  if (asked.prompt_bytes == 0 || asked.estimated_prompt_tokens == 0) return usual;
  return static_cast<double>(asked.estimated_prompt_tokens) * InferenceRequest::block_bytes /
         static_cast<double>(asked.prompt_bytes);
}

}  // namespace

bool has_predicted_cost(const Request& request) {
  if (request.info.inference == nullptr) return false;
  const InferenceTask task = request.info.inference->request.task;
  return task == InferenceTask::chat || task == InferenceTask::completion;
}

Arrival arrival_of(const Request& request) {
  const InferenceRequest& asked = request.info.inference->request;
  const RequestIdentity& identity = request.info.identity;
  constexpr std::uint64_t max_tokens = std::numeric_limits<std::uint32_t>::max();
  Arrival arrival{.prompt_tokens = static_cast<std::uint32_t>(
                      std::clamp<std::uint64_t>(asked.estimated_prompt_tokens, 1, max_tokens)),
                  .prefix_blocks = asked.prefix_blocks,
                  .tokens_per_block = tokens_per_block(asked),
                  .max_tokens = asked.max_tokens.value_or(0),
                  .streams = asked.stream,
                  .ttft_target = named_target(request, "x-slo-ttft-ms"),
                  .tpot_target = named_target(request, "x-slo-tpot-ms")};
  if (identity.tenant != nullptr) {
    arrival.tenant = hash_of(identity.tenant->name);
    arrival.tenant_weight = identity.tenant->weight;
  }
  if (identity.slo != nullptr) {
    if (!arrival.ttft_target) arrival.ttft_target = target_of(identity.slo->ttft);
    if (!arrival.tpot_target) arrival.tpot_target = target_of(identity.slo->tpot);
  }
  return arrival;
}

}  // namespace evenkeel
