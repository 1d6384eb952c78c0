#include "evenkeel/filter/usage.h"

#include <unistd.h>

#include <algorithm>
#include <array>

#include "evenkeel/http/request_id.h"
#include "evenkeel/inference/token_estimates.h"
#include "evenkeel/stats/usage_record.h"
#include "evenkeel/tenancy/output_estimates.h"

namespace evenkeel {
namespace {

std::string default_source() {
  std::array<char, 256> host{};
  const bool known = gethostname(host.data(), host.size() - 1) == 0 && host[0] != '\0';
  return std::string("evenkeel/") + (known ? host.data() : "localhost");
}

/// Output of which the engine has counted no tokens: an event of a stream counts as one, four bytes
/// of another body too.
std::uint64_t estimated_output(const RequestInfo& info) {
  const std::uint32_t events = info.inference->response.output_events;
  if (events > 0) return events;
  if (info.inference->request.stream) return 0;
  return static_cast<std::uint64_t>(static_cast<double>(info.outcome.answer_bytes()) /
                                    TokenEstimates::default_bytes_per_token);
}

std::string_view key_of(const RequestTenant& tenant) {
  return tenant.key == nullptr ? std::string_view() : std::string_view(tenant.key->id);
}

}  // namespace

BilledTokens billed_tokens(const RequestInfo& info, bool aborted) {
  const InferenceRequest& asked = info.inference->request;
  const InferenceResponse& response = info.inference->response;
  const RequestOutcome& outcome = info.outcome;
  const bool answered = outcome.status >= 200 && outcome.status < 300;
  // The backend was at work on the prompt until its client left.
  const bool left =
      outcome.status == 0 && outcome.fault.value_or(Fault::client_gone) == Fault::client_gone;
  const bool estimates = (answered || left) && asked.task != InferenceTask::infer;
  BilledTokens tokens{.cached = response.cached_tokens};
  if (response.prompt_tokens) {
    tokens.input = *response.prompt_tokens;
  } else if (estimates) {
    tokens.input = asked.estimated_prompt_tokens;
    tokens.estimated = true;
  }
  const std::uint64_t counted = response.completion_tokens.value_or(0);
  tokens.output = counted;
  // The counts of a stream are final with its end, those of another answer always.
  const bool is_final = !aborted || !asked.stream || !response.finish_reason.empty();
  const bool has_usage = response.completion_tokens && is_final;
  if (has_usage || !estimates || !OutputEstimates::are_of(asked.task)) return tokens;
  // A stream that broke may have told its usage at its beginning.
  tokens.output = std::max(counted, answered ? estimated_output(info) : 0);
  tokens.estimated |= !response.completion_tokens || tokens.output > counted;
  return tokens;
}

void UsageRecorder::configure(const UsageConfig& config) {
  ring_.begin_destination();
  source_ = config.source.empty() ? default_source() : config.source;
  prices_ = PriceList(config.prices);
}

void UsageRecorder::record(const RequestInfo& info, const End& end) {
  const InferenceInfo& inference = *info.inference;
  const bool reached_backend = info.timings.head_sent != Instant{};
  const bool reused = is_reused(info.outcome.source);
  if (inference.request.task == InferenceTask::other || (!reached_backend && !reused)) return;
  const BilledTokens tokens = reused ? BilledTokens() : billed_tokens(info, end.aborted);
  const RequestIdText id = make_request_id(rng_);
  const std::string_view asked = inference.request.model;
  const std::size_t attempts = info.outcome.attempts.size();
  UsageRecord record{
      .time = end.time,
      .id = {id.data(), id.size()},
      .source = source_,
      .request_id = info.identity.request_id,
      .tenant = info.identity.tenant.name,
      .key = key_of(info.identity.tenant),
      .model = asked,
      .served_model = inference.served_model.empty() ? asked : inference.served_model,
      .pool = info.identity.pool,
      .route = info.identity.route,
      .backend = info.outcome.backend,
      .status = end.status,
      .input_tokens = tokens.input,
      .output_tokens = tokens.output,
      .cached_tokens = tokens.cached,
      .estimated = tokens.estimated,
      .aborted = end.aborted,
      .retries = attempts > 1 ? attempts - 1 : 0,
      .cache = reused ? to_string(info.outcome.source) : std::string_view(),
      .duration = end.duration};
  if (const Price* price = prices_.find(inference)) record.cost = cost_of(tokens, *price);
  UsageBuffer buffer;
  ring_.append(format_usage(record, buffer));
}

}  // namespace evenkeel
