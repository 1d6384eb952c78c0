#include "filter/stream_observer.h"

#include <chrono>

namespace evenkeel {

void StreamObserver::on_chunk(const Chunk& /*chunk*/, const InferenceResponse& response,
                              Instant now) {
  if (const auto& listener = info_.inference->listener)
    listener->on_read(*info_.inference, output_events_, last_output_, now);
  if (response.output_events == output_events_) return;
  if (output_events_ == 0) {
    metrics_.first_token.observe(now - info_.timings.started);
    if (info_.trace != nullptr) [[unlikely]]
      keep_exemplar(metrics_.first_token, now - info_.timings.started);
  } else {
    metrics_.gap.observe(now - last_output_);
  }
  output_events_ = response.output_events;
  last_output_ = response.last_output;
}

/// Failed requests are exported too, but that is known only later.
template <class TracedHistogram>
void StreamObserver::keep_exemplar(TracedHistogram& histogram, Duration duration) const {
  const RequestTrace& trace = *info_.trace;
  const Duration first_token = info_.inference->response.first_output - info_.timings.started;
  if (!trace.is_sampled() && first_token < trace.slow) return;
  histogram.keep_exemplar(duration,
                          {.trace_id = trace.trace_id(), .time = std::chrono::system_clock::now()});
}

void StreamObserver::on_end(bool complete, Instant now) {
  count_tokens();
  const auto& listener = info_.inference->listener;
  if (complete && listener != nullptr) listener->on_end(*info_.inference, now);
}

void StreamObserver::count_tokens() const {
  const InferenceResponse& response = info_.inference->response;
  const std::uint32_t backend = info_.outcome.backend_index;
  const std::uint32_t tenant = info_.identity.tenant.index;
  const auto count = [&](TokenDirection direction, const std::optional<std::uint64_t>& tokens) {
    if (!tokens) return;
    metrics_.tokens.add(direction, *tokens);
    if (backend != 0) worker_metrics_.backend(backend).tokens.add(direction, *tokens);
    if (tenant != 0) worker_metrics_.tenant(tenant).tokens.add(direction, *tokens);
  };
  count(TokenDirection::input, response.prompt_tokens);
  count(TokenDirection::output, response.completion_tokens);
  count(TokenDirection::cached, response.cached_tokens);
  if (const auto time = response.time_per_output_token()) {
    metrics_.per_output_token.observe(*time);
    if (info_.trace != nullptr) [[unlikely]]
      keep_exemplar(metrics_.per_output_token, *time);
  }
  if (response.prompt_tokens) estimates_.learn(info_.inference->request, *response.prompt_tokens);
}

}  // namespace evenkeel
