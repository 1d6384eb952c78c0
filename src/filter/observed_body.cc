#include "filter/observed_body.h"

#include <utility>

namespace evenkeel {

ObservedBody::ObservedBody(Loop& loop, BodyPtr body, ResponseFormat format, RequestInfo& info,
                           ModelMetrics& metrics, WorkerMetrics& worker_metrics,
                           TokenEstimates& estimates)
    : loop_(loop),
      body_(std::move(body)),
      info_(info),
      metrics_(metrics),
      worker_metrics_(worker_metrics),
      estimates_(estimates),
      reader_(ResponseReader::create(format, info.inference->response, info.inference->wants_id)) {}

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
  if (const auto& listener = info_.inference->listener)
    listener->on_read(*info_.inference, events, last, now);
  if (response.output_events == events) return;
  if (events == 0) {
    metrics_.first_token.observe(now - info_.timings.started);
  } else {
    metrics_.gap.observe(now - last);
  }
}

/// `in_order`: the response is complete, not cut off.
void ObservedBody::end(bool in_order) {
  ended_ = true;
  const Instant now = loop_.now();
  reader_->finish(now);
  count_tokens();
  const auto& listener = info_.inference->listener;
  if (in_order && listener != nullptr) listener->on_end(*info_.inference, now);
}

void ObservedBody::count_tokens() const {
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
