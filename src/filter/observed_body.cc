#include "filter/observed_body.h"

#include <utility>

#include "evenkeel/balance/affinity_table.h"
#include "evenkeel/balance/placed_request.h"

namespace evenkeel {

ObservedBody::ObservedBody(Loop& loop, BodyPtr body, ResponseFormat format, RequestInfo& info,
                           ModelMetrics& metrics, TenantMetrics* tenant, TokenEstimates& estimates)
    : loop_(loop),
      body_(std::move(body)),
      info_(info),
      metrics_(metrics),
      tenant_(tenant),
      estimates_(estimates),
      reader_(ResponseReader::create(format, info.inference->response,
                                     info.inference->answer_pins != nullptr)) {}

ObservedBody::~ObservedBody() {
  if (!ended_) end(false);
}

Task<Result<Chunk>> ObservedBody::read() {
  auto next = body_->read();
  if (!next.ready()) return wait(std::move(next));
  auto chunk = next.take();
  inspect(chunk);
  return chunk;
}

Task<Result<Chunk>> ObservedBody::wait(Task<Result<Chunk>> next) {
  auto chunk = co_await next;
  inspect(chunk);
  co_return chunk;
}

void ObservedBody::inspect(const Result<Chunk>& chunk) {
  if (!chunk) return;
  read_output(chunk->bytes);
  if (chunk->last && !ended_) end(true);
}

void ObservedBody::read_output(std::string_view bytes) {
  if (bytes.empty()) return;
  const InferenceResponse& response = info_.inference->response;
  const std::uint32_t events = response.output_events;
  const Instant last = response.last_output;
  const Instant now = loop_.now();
  reader_->read(bytes, now);
  if (info_.inference->answer_pins != nullptr && !response.id.empty()) [[unlikely]]
    pin_id(now);
  if (response.output_events == events) return;
  if (events == 0) {
    metrics_.first_token.observe(now - info_.timings.started);
  } else {
    metrics_.gap.observe(now - last);
  }
  if (info_.inference->placed != nullptr && info_.inference->request.stream) {
    tell_scheduler(events, last, now);
  }
}

/// Pins the response's id before the client knows it.
void ObservedBody::pin_id(Instant now) const {
  info_.inference->answer_pins->pin(AnswerPins::key_of_id(info_.inference->response.id), true, now);
  info_.inference->answer_pins.reset();
}

void ObservedBody::tell_scheduler(std::uint32_t events_before, Instant last_output,
                                  Instant now) const {
  constexpr std::uint32_t sampled = Scheduler::sampled_tokens;
  PlacedRequest& placed = *info_.inference->placed;
  const std::uint32_t events = info_.inference->response.output_events;
  if (events_before == 0) return placed.first_token(now);
  if (events / sampled == events_before / sampled) return;
  placed.output(events, (now - last_output) / static_cast<int>(events - events_before), now);
}

/// `in_order`: the response is complete, not cut off.
void ObservedBody::end(bool in_order) {
  ended_ = true;
  const Instant now = loop_.now();
  reader_->finish(now);
  count_tokens();
  const InferenceInfo& inference = *info_.inference;
  if (!in_order || inference.placed == nullptr) return;
  const InferenceResponse& response = inference.response;
  inference.placed->finished({.output_tokens = response.completion_tokens,
                              .cached_tokens = response.cached_tokens,
                              .prompt_tokens = response.prompt_tokens},
                             inference.request.stream ? response.output_events : 0, now);
}

void ObservedBody::count_tokens() const {
  const InferenceResponse& response = info_.inference->response;
  BackendMetrics* const backend = info_.outcome.backend_metrics;
  const auto count = [&](TokenDirection direction, const std::optional<std::uint64_t>& tokens) {
    if (!tokens) return;
    metrics_.tokens.add(direction, *tokens);
    if (backend != nullptr) backend->tokens.add(direction, *tokens);
    if (tenant_ != nullptr) tenant_->tokens.add(direction, *tokens);
  };
  count(TokenDirection::input, response.prompt_tokens);
  count(TokenDirection::output, response.completion_tokens);
  count(TokenDirection::cached, response.cached_tokens);
  if (const auto time = response.time_per_output_token()) metrics_.per_output_token.observe(*time);
  if (response.prompt_tokens) estimates_.learn(info_.inference->request, *response.prompt_tokens);
}

Task<Result<Chunk>> UsageFreeBody::read() {
  if (broken_) return Result<Chunk>(std::move(*broken_));
  auto next = body_->read();
  if (!next.ready()) return read_until_some(std::move(next));
  auto chunk = next.take();
  if (edit(chunk)) return chunk;
  return read_until_some(body_->read());
}

Task<Result<Chunk>> UsageFreeBody::read_until_some(Task<Result<Chunk>> next) {
  auto chunk = co_await next;
  while (!edit(chunk)) {
    next = body_->read();
    chunk = co_await next;
  }
  co_return chunk;
}

/// False if nothing is left of the chunk, and there is more to read.
bool UsageFreeBody::edit(Result<Chunk>& chunk) {
  if (chunk) {
    chunk->bytes = remover_.pass(chunk->bytes, chunk->last);
    return chunk->last || !chunk->bytes.empty();
  }
  // The client gets what was held back before the error.
  const std::string_view held = remover_.pass({}, true);
  if (held.empty()) return true;
  broken_ = std::move(chunk.error());
  chunk = Chunk{.bytes = held};
  return true;
}

}  // namespace evenkeel
