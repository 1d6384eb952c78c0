#include "evenkeel/filter/spliced_body.h"

namespace evenkeel {
namespace {

bool applies(const BodyEdit& edit) { return edit.applies == nullptr || *edit.applies; }

}  // namespace

SplicedBody::SplicedBody(BodyPtr body, std::vector<BodyEdit> edits)
    : body_(std::move(body)), edits_(std::move(edits)) {}

Task<Result<Chunk>> SplicedBody::read() {
  while (true) {
    if (auto piece = take_piece()) return Result<Chunk>(*piece);
    auto next = body_->read();
    if (!next.ready()) return wait(std::move(next));
    auto chunk = next.take();
    if (!chunk) return chunk;
    chunk_ = *chunk;
  }
}

Task<Result<Chunk>> SplicedBody::wait(Task<Result<Chunk>> next) {
  auto chunk = co_await next;
  if (!chunk) co_return chunk;
  chunk_ = *chunk;
  co_return co_await read();
}

/// The bytes up to the next edit, or what that edit puts in their place. Nothing: the chunk is used
/// up.
std::optional<Chunk> SplicedBody::take_piece() {
  if (!chunk_) return std::nullopt;
  std::string_view& bytes = chunk_->bytes;
  const auto advance = [&](std::uint64_t to) {
    const std::string_view passed = bytes.substr(0, to - position_);
    bytes.remove_prefix(passed.size());
    position_ += passed.size();
    return passed;
  };
  if (replaced_until_ > position_) advance(replaced_until_);
  while (next_ < edits_.size() && !applies(edits_[next_])) ++next_;
  if (!bytes.empty() && next_ < edits_.size() && edits_[next_].replaced.begin == position_) {
    const BodyEdit& edit = edits_[next_++];
    replaced_until_ = edit.replaced.end;
    if (!edit.by.empty()) return Chunk{.bytes = edit.by};
    return take_piece();
  }
  const std::uint64_t end = position_ + bytes.size();
  if (next_ < edits_.size() && edits_[next_].replaced.begin < end && !bytes.empty()) {
    return Chunk{.bytes = advance(edits_[next_].replaced.begin)};
  }
  const Chunk rest = *chunk_;
  chunk_.reset();
  position_ = end;
  if (rest.bytes.empty() && !rest.last) return std::nullopt;
  return rest;
}

std::optional<std::uint64_t> SplicedBody::length() const {
  auto length = body_->length();
  if (!length) return length;
  for (const BodyEdit& edit : edits_) {
    if (!applies(edit)) continue;
    *length += edit.by.size();
    *length -= edit.replaced.end - edit.replaced.begin;
  }
  return length;
}

bool SplicedBody::rewind() {
  if (!body_->rewind()) return false;
  next_ = 0;
  position_ = replaced_until_ = 0;
  chunk_.reset();
  return true;
}

}  // namespace evenkeel
