#include "proxy/request_cost.h"

#include <algorithm>

#include "evenkeel/base/decimal.h"
#include "evenkeel/base/hash.h"
#include "evenkeel/config/config.h"
#include "evenkeel/inference/token_estimates.h"

namespace evenkeel {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds max_target = std::chrono::hours(1);

/// What the client asks for, in one pass over its fields: few clients do.
struct NamedTargets {
  std::optional<Duration> ttft;
  std::optional<Duration> tpot;

  explicit NamedTargets(const Fields& fields) {
    constexpr std::string_view ttft_name = "x-slo-ttft-ms";
    constexpr std::string_view tpot_name = "x-slo-tpot-ms";
    static_assert(ttft_name.size() == tpot_name.size());
    for (const Field& field : fields) {
      if (field.name_size != ttft_name.size() || field.id != FieldId::other) [[likely]]
        continue;
      if (equals_ignore_case(field.name(), ttft_name) && !ttft) ttft = target(field.value());
      if (equals_ignore_case(field.name(), tpot_name) && !tpot) tpot = target(field.value());
    }
  }

 private:
  /// Nothing unless it is a whole number of milliseconds, from 1 to an hour.
  static std::optional<Duration> target(std::string_view value) {
    const milliseconds asked(parse_number<std::uint32_t>(value).value_or(0));
    const bool in_range = asked > milliseconds{} && asked <= max_target;
    return in_range ? std::optional<Duration>(asked) : std::nullopt;
  }
};

std::optional<Duration> target_of(milliseconds target) {
  if (target == milliseconds{}) return std::nullopt;
  return target;
}

/// Tokens of a block of the prompt: its text alone makes blocks, neither images nor token ids.
double tokens_per_block(const InferenceRequest& asked) {
  constexpr double usual = InferenceRequest::block_bytes / TokenEstimates::default_bytes_per_token;
  const std::uint64_t others =
      asked.prompt_tokens + asked.images * TokenEstimates::tokens_per_image;
  if (asked.prompt_bytes == 0 || asked.estimated_prompt_tokens <= others) return usual;
  return static_cast<double>(asked.estimated_prompt_tokens - others) *
         InferenceRequest::block_bytes / static_cast<double>(asked.prompt_bytes);
}

}  // namespace

bool has_predicted_cost(const Request& request) {
  if (request.info.inference == nullptr) return false;
  const InferenceTask task = request.info.inference->request.task;
  return task == InferenceTask::chat || task == InferenceTask::completion;
}

RequestCost cost_of(const Request& request, const SloConfig& slo, std::uint64_t model) {
  const InferenceRequest& asked = request.info.inference->request;
  const RequestIdentity& identity = request.info.identity;
  constexpr std::uint64_t max_tokens = 2'000'000;  // no model takes more
  Arrival arrival{.prompt_tokens = static_cast<std::uint32_t>(
                      std::clamp<std::uint64_t>(asked.estimated_prompt_tokens, 1, max_tokens)),
                  .prefix_blocks = asked.prefix_blocks,
                  .tokens_per_block = tokens_per_block(asked),
                  .max_tokens = asked.max_tokens.value_or(0),
                  .choices = asked.choices,
                  // The first token of one whose body is still to come may never be.
                  .streams = asked.stream && asked.complete,
                  .ttft_target = target_of(slo.ttft),
                  .tpot_target = target_of(slo.tpot)};
  // A request may not name targets that avoid its refusal, or that let others wait for its streams.
  const auto [ttft, tpot] = NamedTargets(request.fields);
  if (ttft) arrival.ttft_target = std::min(*ttft, arrival.ttft_target.value_or(*ttft));
  if (tpot) arrival.tpot_target = std::max(*tpot, arrival.tpot_target.value_or(*tpot));
  if (!identity.tenant.name.empty()) {
    arrival.tenant = hash_of(identity.tenant.name);
    arrival.tenant_weight = identity.tenant.weight;
  }
  return {.arrival = arrival,
          .model = model != 0 ? model : hash_of(asked.model),
          .name = identity.request_id};
}

}  // namespace evenkeel
