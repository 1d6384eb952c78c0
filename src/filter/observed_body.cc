#include "filter/observed_body.h"

#include <utility>

namespace evenkeel {

ObservedBody::ObservedBody(Loop& loop, BodyPtr body, ResponseFormat format, RequestInfo& info,
                           ModelMetrics& metrics, TenantMetrics* tenant, TokenEstimates& estimates)
    : loop_(loop),
      body_(std::move(body)),
      info_(info),
      metrics_(metrics),
      tenant_(tenant),
      estimates_(estimates),
      reader_(ResponseReader::create(format, info.inference->response)) {}

ObservedBody::~ObservedBody() {
  reader_->finish(loop_.now());
  count_tokens();
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
  if (!chunk || chunk->bytes.empty()) return;
  const InferenceResponse& response = info_.inference->response;
  const std::uint32_t events = response.output_events;
  const Instant last = response.last_output;
  const Instant now = loop_.now();
  reader_->read(chunk->bytes, now);
  if (response.output_events == events) return;
  if (events == 0) {
    metrics_.first_token.observe(now - info_.timings.started);
  } else {
    metrics_.gap.observe(now - last);
  }
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

/// False: nothing is left of the chunk, and there is more to read.
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
