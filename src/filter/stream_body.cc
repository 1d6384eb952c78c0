#include "evenkeel/filter/stream_body.h"

#include <utility>

namespace evenkeel {

StreamBody::~StreamBody() {
  if (editor_ != nullptr) editor_->begin({});
  if (reader_ != nullptr && !ended_) end(false, loop_.now());
}

void StreamBody::set_observer(std::unique_ptr<StreamListener> observer) {
  observer_ = std::move(observer);
  response_ = &info_.inference->response;
  interests_.id = info_.inference->wants_id;
}

void StreamBody::edit(EventEdits edits) {
  const bool is_document = format_ == ResponseFormat::json;
  editor_ = std::make_unique<EventEditor>(
      std::move(edits), is_document ? EventEditor::max_document : EventEditor::max_event);
  interests_.editor = editor_.get();
}

std::optional<std::uint64_t> StreamBody::length() const {
  return editor_ == nullptr ? body_->length() : std::nullopt;
}

Task<Result<Chunk>> StreamBody::read() {
  if (broken_) return Result<Chunk>(std::move(*broken_));
  auto next = body_->read();
  if (!next.ready()) {
    has_waited_ = true;
    return read_until_some(std::move(next));
  }
  auto chunk = next.take();
  if (pass(chunk)) return chunk;
  return read_until_some(body_->read());
}

Task<Result<Chunk>> StreamBody::read_until_some(Task<Result<Chunk>> next) {
  auto chunk = co_await next;
  while (!pass(chunk)) {
    next = body_->read();
    chunk = co_await next;
  }
  co_return chunk;
}

/// True unless nothing is left of the chunk, and there is more to read.
bool StreamBody::pass(Result<Chunk>& chunk) {
  if (!chunk) {
    break_off(chunk);
    return true;
  }
  if (reader_ == nullptr) reader_ = ResponseReader::create(format_, *response_, interests_);
  const Instant now = loop_.now();
  if (observer_ == nullptr) {
    reader_->wants_output(source_ != nullptr && source_->wants_output());
  }
  if (editor_ != nullptr) editor_->begin(chunk->bytes);
  if (!chunk->bytes.empty()) reader_->read(chunk->bytes, now);
  if (chunk->last) reader_->finish(now);
  if (source_ != nullptr) source_->on_chunk(*chunk, *response_, now);
  if (observer_ != nullptr) observer_->on_chunk(*chunk, *response_, now);
  if (reader_->found_error() && !info_.outcome.fault) info_.outcome.fault = Fault::stream_error;
  if (chunk->last && !ended_) end(true, now);
  if (editor_ != nullptr) chunk->bytes = editor_->pass(chunk->last);
  return chunk->last || !chunk->bytes.empty();
}

/// Gives the client what was held back, and an error event, before the error. If the first read
/// fails at once the head is not written, and can still be an error's.
void StreamBody::break_off(Result<Chunk>& chunk) {
  if (editor_ != nullptr) {
    editor_->begin({});
    tail_ = editor_->pass(true);
  }
  const bool has_head = reader_ != nullptr || has_waited_;
  if (error_format_ && has_head && chunk.error().side != Side::client) {
    const bool lines = format_ == ResponseFormat::json_lines;
    // Half an event is ended, so that the error is one of its own.
    if (reader_ != nullptr && !reader_->between_events()) tail_ += lines ? "\n" : "\n\n";
    tail_ += lines ? error_line(chunk.error()) : error_event(chunk.error(), *error_format_);
  }
  if (tail_.empty()) return;
  broken_ = std::move(chunk.error());
  chunk = Chunk{.bytes = tail_};
}

void StreamBody::end(bool complete, Instant now) {
  ended_ = true;
  if (!complete) reader_->finish(now);
  if (observer_ != nullptr) observer_->on_end(complete, now);
}

}  // namespace evenkeel
