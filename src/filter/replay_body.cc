#include "evenkeel/filter/replay_body.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "evenkeel/base/deadline.h"

namespace evenkeel {

/// A wait for the client, which ends also when others need the memory.
class ReplayBody::Arrival : public UntilDoneOrDeadline<Result<Chunk>> {
 public:
  Arrival(ReplayBody& body, Task<Result<Chunk>>& chunk)
      : UntilDoneOrDeadline(chunk, body.all().loop(), never), body_(body) {
    body_.arrival_ = this;
    body_.set_stage(Stage::arrives);
  }
  Arrival(const Arrival&) = delete;
  ~Arrival() {
    body_.arrival_ = nullptr;
    body_.set_stage(Stage::passes);
  }

 private:
  ReplayBody& body_;
};

Task<Result<Chunk>> ReplayBody::read() {
  lends_block_ = false;
  if (!keeps_) free_before(next_);
  if (next_ < blocks_.size()) return Result<Chunk>(replay());
  if (lent_) {
    whole_ = false;
    return Result<Chunk>(*std::exchange(lent_, std::nullopt));
  }
  if (last_) return Result<Chunk>(*last_);
  if (!keeps_ && !blocks_.empty()) forget();  // replayed to the end
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
  const bool kept =
      chunk && chunk->bytes.size() <= max_bytes_ - kept_bytes_ && append(chunk->bytes);
  if (!kept) {
    if (chunk) metrics_.overflows.add();
    keeps_ = whole_ = false;
    forget();
    return chunk;
  }
  appended(*chunk);
  return chunk;
}

void ReplayBody::appended(const Chunk& chunk) {
  if (chunk.last) last_ = Chunk{.last = true, .trailers = chunk.trailers};
  next_ = blocks_.size();
}

Task<Result<Chunk>> ReplayBody::receive() {
  lends_block_ = false;
  auto next = body_->read();
  if (next.ready()) return next;
  return wait_to_receive(std::move(next));
}

Task<Result<Chunk>> ReplayBody::wait_to_receive(Task<Result<Chunk>> next) {
  {
    Arrival arrival(*this, next);
    co_await arrival;
  }
  if (!next.ready() || has_ended()) co_return gave_way();
  co_return next.take();
}

bool ReplayBody::hold(const Chunk& chunk) {
  if (kept_bytes_ + chunk.bytes.size() > max_bytes_ || !append(chunk.bytes)) return false;
  appended(chunk);
  return true;
}

Task<Result<Done>> ReplayBody::hold_all(const Chunk& chunk) {
  const bool claimed = has_claim() || claim(needed_for(chunk));
  if (!claimed || !append(chunk.bytes)) return wait_to_hold(chunk);
  appended(chunk);
  return Result<Done>(Done{});
}

Task<Result<Done>> ReplayBody::wait_to_hold(Chunk chunk) {
  while (true) {
    auto claimed = co_await wait_to_claim(needed_for(chunk));
    if (!claimed) {
      metrics_.overflows.add();
      co_return claimed;
    }
    if (append(chunk.bytes)) break;
  }
  appended(chunk);
  co_return Done{};
}

/// How much the body takes in the end. One of unknown length takes as much again as it has so far.
std::uint64_t ReplayBody::needed_for(const Chunk& chunk) const {
  constexpr std::uint64_t reserve = 2 * Block::large;  // blocks that are not full
  const std::uint64_t size = chunk.bytes.size();
  std::uint64_t rest = size;
  if (const auto length = body_->length()) {
    rest = std::max(size, *length - std::min(*length, kept_bytes_));
  } else if (!chunk.last) {
    rest = std::max({size, kept_bytes_, max_bytes_ - std::min(max_bytes_, kept_bytes_)});
  }
  return held() + rest + rest / 15 + reserve;
}

void ReplayBody::lend(const Chunk& chunk) {
  metrics_.overflows.add();
  keeps_ = false;
  lent_ = chunk;
  next_ = blocks_.size();
}

/// Takes the block of the chunk that was read last, which `bytes` are. False: they can be copied,
/// which takes less memory where they do not fill the block, and is left for when it runs short.
bool ReplayBody::keep_block(std::string_view bytes, bool small) {
  if (bytes.size() < Block::small) return false;
  const bool fills = bytes.size() * 16 >= Block::huge * 15;
  const bool has_plenty = all().taken() + Block::huge <= limit_of(small) / 2;
  if (has_claim() ? !fills : !has_plenty) return false;
  if (!take(Block::huge, small)) return false;
  Block block = body_->take_block();
  give(Block::huge - block.size());
  if (!block) return false;
  const auto begin = static_cast<std::uint32_t>(bytes.data() - block.data());
  blocks_.push_back({std::move(block), begin, begin + static_cast<std::uint32_t>(bytes.size())});
  lends_block_ = true;
  return true;
}

/// Keeps bytes behind those that are kept; false: there is no room for them, and none was kept.
bool ReplayBody::append(std::string_view bytes) {
  if (!bytes.empty() && !has_claim() && all().memory_is_scarce()) return false;
  const bool small = kept_bytes_ + bytes.size() <= max_small_body;
  if (keep_block(bytes, small)) {
    kept_bytes_ += bytes.size();
    return true;
  }
  const std::size_t blocks = blocks_.size();
  const std::uint32_t end = blocks == 0 ? 0 : blocks_.back().end;
  for (std::string_view rest = bytes; !rest.empty();) {
    if (blocks_.empty() || blocks_.back().free_size() == 0) {
      const std::uint32_t size = rest.size() > Block::small || !blocks_.empty() ? Block::large
                                 : rest.size() > Block::tiny                    ? Block::small
                                                                                : Block::tiny;
      if (!take(size, small)) {
        for (; blocks_.size() > blocks; blocks_.pop_back()) give(blocks_.back().block.size());
        if (blocks != 0) blocks_.back().end = end;
        return false;
      }
      blocks_.push_back({.block = Block::take(size)});
    }
    ReadBuffer& into = blocks_.back();
    const std::size_t size = std::min<std::size_t>(rest.size(), into.free_size());
    std::memcpy(into.free_begin(), rest.data(), size);
    into.end += static_cast<std::uint32_t>(size);
    rest.remove_prefix(size);
  }
  kept_bytes_ += bytes.size();
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

/// Rewinds; a body that was held beyond what may be kept for a retry is kept until it is read.
bool ReplayBody::rewind() {
  if (!whole_) return false;
  end_claim();
  if (kept_bytes_ > max_bytes_) keeps_ = false;
  next_ = 0;
  lends_block_ = false;
  return true;
}

void ReplayBody::commit(bool sent) {
  body_->commit(sent);
  if (!keeps_) return;
  keeps_ = whole_ = false;
  const std::size_t needed_from = lends_block_ && !sent ? next_ - 1 : next_;
  if (needed_from >= blocks_.size()) return forget();
  free_before(needed_from);
}

void ReplayBody::drop_copy() {
  if (!keeps_ || next_ == 0 || (lends_block_ && next_ == 1)) return;
  metrics_.overflows.add();
  keeps_ = whole_ = false;
  free_before(lends_block_ ? next_ - 1 : next_);
}

void ReplayBody::end_arrival() {
  if (arrival_ != nullptr) arrival_->expire_soon();
}

void ReplayBody::free_before(std::size_t block) {
  for (; freed_ < block; ++freed_) {
    give(blocks_[freed_].block.size());
    blocks_[freed_].release();
    whole_ = false;
  }
}

void ReplayBody::forget() {
  free_before(blocks_.size());
  blocks_.clear();
  freed_ = next_ = 0;
}

}  // namespace evenkeel
