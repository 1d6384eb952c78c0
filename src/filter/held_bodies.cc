#include "evenkeel/filter/held_bodies.h"

#include <algorithm>

#include "evenkeel/base/free_memory.h"
#include "evenkeel/http/client_key.h"

namespace evenkeel {
namespace {

/// Bodies that hold less are not looked at one by one.
constexpr std::uint64_t min_counted = Block::small;

/// A body of a client that takes much ends if it has not grown for so long, that of any client
/// after a longer time.
constexpr Duration short_stall = std::chrono::seconds(1);
constexpr Duration long_stall = std::chrono::seconds(5);
/// An upload waits for room so long before bodies that do grow end for it, if their client takes
/// more than its own.
constexpr Duration patience = std::chrono::seconds(5);
constexpr Duration max_wait = std::chrono::seconds(30);
/// Stalls, and the memory of the process, are looked at again after so long.
constexpr Duration look_interval = std::chrono::milliseconds(250);

/// The process counts the memory of bodies in steps of this, so that workers do not pass the count
/// to and fro.
constexpr std::int64_t counting_step = 256L * 1024;

}  // namespace

Error no_room_for_bodies() {
  return {.fault = Fault::out_of_memory,
          .detail =
              "too little memory is free for the bodies of requests (limits.held_bodies, or 64 MiB "
              "for windows of zstd)"};
}

bool HeldBodies::memory_is_short(std::uint64_t bytes) const {
  if (pressure_ == nullptr) return false;
  if (memory_is_scarce()) return true;
  const std::int64_t room = pressure_->room();
  return room != MemoryPressureLevel::unlimited &&
         static_cast<std::int64_t>(bytes) > room - uncounted_;
}

bool HeldBodies::has_room(std::uint64_t bytes, std::uint64_t limit) const {
  return taken_ + bytes <= limit && !memory_is_short(bytes);
}

/// How much less there is than a body needs, once those that have been ended are gone.
std::uint64_t HeldBodies::missing(std::uint64_t bytes, std::uint64_t limit) const {
  if (memory_is_short(bytes)) return bytes - std::min(bytes, leaving_);
  const std::uint64_t needed = taken_ + bytes - leaving_;
  return needed - std::min(needed, limit);
}

void HeldBodies::make_room(const HeldBody& needy, std::uint64_t bytes, Duration waited) {
  if (memory_is_short(bytes)) release_cached_blocks();
  const auto each = [&](auto visit) {
    for (Node* node = bodies_.next; node != &bodies_;) {
      HeldBody& body = static_cast<HeldBody::Place&>(*node).body;
      node = node->next;
      if (missing(bytes, needy.large_limit()) == 0) return;
      if (&body != &needy) visit(body);
    }
  };
  each([](HeldBody& body) {
    if (body.stage_ == HeldBody::Stage::passes) body.drop_copy();
  });
  each([&](HeldBody& body) {
    if (may_end(body, needy, bytes, waited)) body.end();
  });
}

bool HeldBodies::may_end(const HeldBody& body, const HeldBody& needy, std::uint64_t bytes,
                         Duration waited) const {
  if (body.ended_ || body.stage_ == HeldBody::Stage::passes) return false;
  const bool takes_more = body.client_->bytes > needy.client_->bytes + bytes;
  if (takes_more && waited >= patience) return true;
  const Duration stalled = loop_.now() - body.grew_;
  return body.stage_ == HeldBody::Stage::arrives &&
         stalled >= (takes_more ? short_stall : long_stall);
}

void HeldBodies::count_memory(std::int64_t bytes) {
  if (pressure_ == nullptr) return;
  uncounted_ += bytes;
  if (std::abs(uncounted_) < counting_step) return;
  pressure_->take(uncounted_);
  uncounted_ = 0;
}

HeldBody::~HeldBody() {
  if (held_ > 0) give(held_);
  end_claim();
  if (client_ == nullptr) return;
  --all_.body_count_;
  if (--client_->bodies == 0) all_.clients_.erase(client_key_);
}

/// From now on the body is looked at when memory runs short.
void HeldBody::enter() {
  client_key_ = client_key(identity_);
  client_ = &all_.clients_[client_key_];
  ++client_->bodies;
  client_->bytes += claimed_;
  ++all_.body_count_;
  grew();
}

void HeldBody::grew() {
  grew_ = all_.loop_.now();
  place_.unlink();
  place_.insert_before(all_.bodies_);
}

void HeldBody::add(std::uint64_t bytes) {
  claimed_ += bytes;
  all_.taken_ += bytes;
  if (client_ != nullptr) client_->bytes += bytes;
  if (ended_) all_.leaving_ += bytes;
}

void HeldBody::remove(std::uint64_t bytes) {
  claimed_ -= bytes;
  all_.taken_ -= bytes;
  if (client_ != nullptr) client_->bytes -= bytes;
  if (ended_) all_.leaving_ -= bytes;
  if (all_.waiting_.linked()) [[unlikely]]
    all_.freed();
}

bool HeldBody::take(std::uint64_t bytes, bool small) {
  const std::uint64_t held = held_ + bytes;
  if (held > claimed_) {
    if (!all_.has_room(held - claimed_, limit_of(small))) return false;
    add(held - claimed_);
  }
  held_ = held;
  all_.metrics_.held.add(static_cast<std::int64_t>(bytes));
  all_.count_memory(static_cast<std::int64_t>(bytes));
  if (client_ != nullptr) {
    grew();
  } else if (held_ > min_counted) {
    enter();
  }
  return true;
}

/// What was claimed beyond what is held stays claimed.
void HeldBody::give(std::uint64_t bytes) {
  const bool claims_more = has_claim();
  held_ -= bytes;
  all_.metrics_.held.remove(static_cast<std::int64_t>(bytes));
  all_.count_memory(-static_cast<std::int64_t>(bytes));
  if (!claims_more) remove(bytes);
}

bool HeldBody::claim(std::uint64_t bytes) {
  if (bytes <= claimed_) return true;
  if (!all_.has_room(bytes - claimed_, large_limit())) return false;
  add(bytes - claimed_);
  return true;
}

void HeldBody::end_claim() {
  if (has_claim()) remove(claimed_ - held_);
}

Error HeldBody::gave_way() {
  return {.fault = Fault::body_timeout,
          .side = Side::client,
          .detail =
              "the request body arrived too slowly while there was too little memory for others "
              "(limits.held_bodies)"};
}

void HeldBody::end() {
  ended_ = true;
  all_.leaving_ += claimed_;
  if (stage_ == Stage::waits) {
    room_.raise();
  } else {
    end_arrival();
  }
}

/// The place of a body among those that wait for room.
class HeldBody::Wait : public Node {
 public:
  Wait(HeldBody& own_body, std::uint64_t needed) : body(own_body), bytes(needed) {
    insert_before(body.all_.waiting_);
    ++body.all_.waiting_count_;
    body.stage_ = Stage::waits;
  }
  Wait(const Wait&) = delete;
  ~Wait() {
    unlink();
    --body.all_.waiting_count_;
    body.stage_ = Stage::passes;
    body.grew();
    if (body.all_.waiting_.linked()) body.all_.freed();
  }

  bool is_newest() const { return next == &body.all_.waiting_; }

  HeldBody& body;
  const std::uint64_t bytes;  // in all
};

/// Wakes the body that is to have the room which there is now: that of the client that takes least.
/// It wakes the next one.
void HeldBodies::freed() {
  HeldBody::Wait* first = nullptr;
  for (Node* node = waiting_.next; node != &waiting_; node = node->next) {
    auto& wait = static_cast<HeldBody::Wait&>(*node);
    if (wait.body.room_.raised()) return;
    if (!has_room(wait.bytes - std::min(wait.bytes, wait.body.claimed_), wait.body.large_limit()))
      continue;
    if (first == nullptr || wait.body.client_->bytes < first->body.client_->bytes) first = &wait;
  }
  if (first != nullptr) first->body.room_.raise();
}

Task<Result<Done>> HeldBody::wait_to_claim(std::uint64_t bytes) {
  if (large_limit() == 0) co_return no_room_for_bodies();
  if (bytes > large_limit()) {
    co_return Error{.fault = Fault::body_too_large,
                    .side = Side::client,
                    .detail =
                        "the body does not say early enough where the request goes, and is longer "
                        "than may be held until it does: name the model before the prompt, or "
                        "raise limits.held_bodies, half of which large bodies share"};
  }
  if (client_ == nullptr) enter();
  Loop& loop = all_.loop_;
  const Instant began = loop.now();
  const Wait wait(*this, bytes);
  while (!claim(bytes)) {
    const Duration waited = loop.now() - began;
    all_.make_room(*this, bytes - claimed_, waited);
    if (claim(bytes)) break;
    // All wait for each other.
    const bool stuck =
        all_.waiting_count_ == all_.body_count_ && wait.is_newest() && waited > short_stall;
    if (stuck || waited >= max_wait) co_return no_room_for_bodies();
    auto wake = co_await room_.wait(loop.now() + look_interval);
    static_cast<void>(wake);
    if (ended_) co_return gave_way();
  }
  co_return Done{};
}

}  // namespace evenkeel
