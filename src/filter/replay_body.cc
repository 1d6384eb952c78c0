#include "evenkeel/filter/replay_body.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace evenkeel {

Task<Result<Chunk>> ReplayBody::read() {
  lends_block_ = false;
  if (next_ < blocks_.size()) return Result<Chunk>(replay());
  if (unkept_) return Result<Chunk>(*std::exchange(unkept_, std::nullopt));
  if (last_) return Result<Chunk>(*last_);
  if (!keeps_ && !blocks_.empty()) forget();  // committed, and replayed to the end
  auto next = body_->read();
  if (!keeps_) return next;
  if (next.ready()) return keep(next.take());
  return wait(std::move(next));
}

Task<Result<Chunk>> ReplayBody::wait(Task<Result<Chunk>> next) {
  auto chunk = co_await next;
  if (!keeps_) co_return chunk;
  co_return keep(std::move(chunk));
}

Result<Chunk> ReplayBody::keep(Result<Chunk> chunk) {
  const bool kept = chunk && append(chunk->bytes);
  if (!kept) {
    if (chunk) metrics_.overflows.add();
    keeps_ = false;
    forget();
    return chunk;
  }
  if (chunk->last) last_ = Chunk{.last = true, .trailers = chunk->trailers};
  next_ = blocks_.size();
  return chunk;
}

Task<Result<Chunk>> ReplayBody::hold() {
  lends_block_ = false;
  auto next = body_->read();
  if (next.ready()) return keep_held(next.take());
  return wait_to_hold(std::move(next));
}

Task<Result<Chunk>> ReplayBody::wait_to_hold(Task<Result<Chunk>> next) {
  auto chunk = co_await next;
  co_return keep_held(std::move(chunk));
}

Result<Chunk> ReplayBody::keep_held(Result<Chunk> chunk) {
  if (!chunk) return chunk;
  const std::size_t blocks = blocks_.size();
  const std::uint32_t end = blocks == 0 ? 0 : blocks_.back().end;
  if (append(chunk->bytes)) {
    if (chunk->last) last_ = Chunk{.last = true, .trailers = chunk->trailers};
  } else {
    // What of the chunk was appended is taken back: the chunk itself follows.
    while (blocks_.size() > blocks) {
      metrics_.held.remove(blocks_.back().block.size());
      held_ -= blocks_.back().block.size();
      blocks_.pop_back();
    }
    if (blocks != 0) blocks_.back().end = end;
    metrics_.overflows.add();
    keeps_ = false;
    unkept_ = *chunk;
  }
  next_ = blocks_.size();
  return chunk;
}

/// Takes the block of the chunk that was read last, which `bytes` are. False: they can be copied,
/// which takes less memory where they do not fill the block, and is left for when it runs short.
bool ReplayBody::keep_block(std::string_view bytes, std::uint64_t limit) {
  const auto held = static_cast<std::uint64_t>(metrics_.held.value());
  if (bytes.size() < Block::small || held + Block::huge > limit / 2) return false;
  Block block = body_->take_block();
  if (!block) return false;
  const auto begin = static_cast<std::uint32_t>(bytes.data() - block.data());
  metrics_.held.add(block.size());
  held_ += block.size();
  blocks_.push_back({std::move(block), begin, begin + static_cast<std::uint32_t>(bytes.size())});
  lends_block_ = true;
  return true;
}

/// Keeps bytes behind those that are kept; false: there is no room for them.
bool ReplayBody::append(std::string_view bytes) {
  if (bytes.size() > limits_.body_bytes - kept_bytes_) return false;
  if (!bytes.empty() && memory_is_scarce()) return false;
  kept_bytes_ += bytes.size();
  const bool is_small = kept_bytes_ <= max_small_body;
  const std::uint64_t limit = is_small ? limits_.worker_bytes : limits_.worker_bytes / 2;
  if (keep_block(bytes, limit)) return true;
  while (!bytes.empty()) {
    if (blocks_.empty() || blocks_.back().free_size() == 0) {
      const std::uint32_t size = bytes.size() > Block::small || !blocks_.empty() ? Block::large
                                 : bytes.size() > Block::tiny                    ? Block::small
                                                                                 : Block::tiny;
      const auto held = static_cast<std::uint64_t>(metrics_.held.value());
      if (held + size > limit) return false;
      blocks_.push_back({.block = Block::take(size)});
      metrics_.held.add(size);
      held_ += size;
    }
    ReadBuffer& into = blocks_.back();
    const std::size_t size = std::min<std::size_t>(bytes.size(), into.free_size());
    std::memcpy(into.free_begin(), bytes.data(), size);
    into.end += static_cast<std::uint32_t>(size);
    bytes.remove_prefix(size);
  }
  return true;
}

/// REQUIRES: next_ < blocks_.size().
Chunk ReplayBody::replay() {
  lends_block_ = true;
  Chunk chunk{.bytes = blocks_[next_++].bytes()};
  if (next_ == blocks_.size() && last_) {
    chunk.last = true;
    chunk.trailers = last_->trailers;
  }
  return chunk;
}

bool ReplayBody::rewind() {
  if (!keeps_ && !unkept_) return false;
  next_ = 0;
  lends_block_ = false;
  return true;
}

void ReplayBody::commit(bool sent) {
  body_->commit(sent);
  if (!keeps_) return;
  keeps_ = false;
  const std::size_t needed_from = lends_block_ && !sent ? next_ - 1 : next_;
  if (needed_from >= blocks_.size()) return forget();
  const auto needed = blocks_.begin() + static_cast<std::ptrdiff_t>(needed_from);
  for (auto block = blocks_.begin(); block != needed; ++block) {
    metrics_.held.remove(block->block.size());
    held_ -= block->block.size();
  }
  blocks_.erase(blocks_.begin(), needed);
  next_ -= needed_from;
}

void ReplayBody::forget() {
  metrics_.held.remove(held_);
  held_ = 0;
  blocks_.clear();
  next_ = 0;
}

}  // namespace evenkeel
