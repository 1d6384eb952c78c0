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
/// The most bodies that are ended at once, since they are looked for one by one.
constexpr int max_ended_at_once = 64;
/// A client that takes no more than the first in line waits for, divided by this, goes before it.
constexpr std::uint64_t little = 8;
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

/// The place of a body among those that wait for room.
class WaitForRoom : public Node {
 public:
  WaitForRoom(HeldBody& own_body, std::uint64_t needed)
      : body(own_body), bytes(needed), began(body.all_.loop_.now()) {
    insert_before(body.all_.waiting_);
    ++body.all_.waiting_count_;
    body.stage_ = HeldBody::Stage::waits;
    WaitForRoom*& first = body.all_.first_;
    if (first != nullptr && held_besides() < first->held_besides()) first = this;
  }
  WaitForRoom(const WaitForRoom&) = delete;
  ~WaitForRoom() {
    unlink();
    --body.all_.waiting_count_;
    if (body.all_.first_ == this) body.all_.first_ = nullptr;
    body.stage_ = HeldBody::Stage::passes;
    body.grew();
    if (body.all_.waiting_.linked()) body.all_.freed();
  }

  /// What the client holds in its other bodies.
  std::uint64_t held_besides() const { return body.client_->bytes - body.claimed_; }

  HeldBody& body;
  const std::uint64_t bytes;  // in all
  const Instant began;
};

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

/// The body whose client holds least; of those that hold the same, the one that waits longest.
/// REQUIRES: a body waits.
const WaitForRoom& HeldBodies::find_first_in_line() {
  first_ = nullptr;
  for (Node* node = waiting_.next; node != &waiting_; node = node->next) {
    auto& wait = static_cast<WaitForRoom&>(*node);
    if (first_ == nullptr || wait.held_besides() < first_->held_besides()) first_ = &wait;
  }
  first_found_ = loop_.now();
  return *first_;
}

/// The first in line, looked for once in a turn of the loop: each body that waits asks several
/// times.
const WaitForRoom& HeldBodies::first_in_line() {
  return first_ != nullptr && first_found_ == loop_.now() ? *first_ : find_first_in_line();
}

/// Null if none but the first is left.
WaitForRoom* HeldBodies::last_in_line(const HeldBody& first) const {
  WaitForRoom* last = nullptr;
  for (Node* node = waiting_.next; node != &waiting_; node = node->next) {
    auto& wait = static_cast<WaitForRoom&>(*node);
    if (&wait.body == &first || wait.body.ended_) continue;
    if (last == nullptr || wait.held_besides() >= last->held_besides()) last = &wait;
  }
  return last;
}

/// True if a body must not take so many bytes more: another client is first in line. One that waits
/// for very much does not hold up those that need little.
bool HeldBodies::must_wait(const HeldBody& body, std::uint64_t bytes) {
  if (!waiting_.linked()) [[likely]]
    return false;
  const WaitForRoom& first = first_in_line();
  if (first.body.client_ == body.client_) return false;
  return body.client_ == nullptr || body.client_->bytes + bytes > first.bytes / little;
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
  if (waiting_count_ < body_count_ || waited < short_stall) return;
  // All wait for each other.
  for (int left = max_ended_at_once; left > 0; --left) {
    if (missing(bytes, needy.large_limit()) == 0) return;
    WaitForRoom* const last = last_in_line(needy);
    if (last == nullptr) return;
    last->body.end();
  }
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

/// Registers the body, which is looked at from now on when memory runs short.
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
    if (!small && all_.must_wait(*this, held - claimed_)) return false;
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

/// Gives held bytes back; what was claimed beyond them stays claimed.
void HeldBody::give(std::uint64_t bytes) {
  const bool claims_more = has_claim();
  held_ -= bytes;
  all_.metrics_.held.remove(static_cast<std::int64_t>(bytes));
  all_.count_memory(-static_cast<std::int64_t>(bytes));
  if (!claims_more) remove(bytes);
}

bool HeldBody::claim(std::uint64_t bytes) {
  if (bytes <= claimed_) return true;
  const std::uint64_t more = bytes - claimed_;
  if (all_.must_wait(*this, more) || !all_.has_room(more, large_limit())) return false;
  add(more);
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

/// Wakes the first in line if there is room for it now. It wakes the next one.
void HeldBodies::freed() {
  const WaitForRoom& first = find_first_in_line();
  const std::uint64_t more = first.bytes - std::min(first.bytes, first.body.claimed_);
  if (has_room(more, first.body.large_limit())) first.body.room_.raise();
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
  const WaitForRoom wait(*this, bytes);
  while (!claim(bytes)) {
    const Duration waited = loop.now() - wait.began;
    const std::uint64_t more = bytes - claimed_;
    if (!all_.must_wait(*this, more)) all_.make_room(*this, more, waited);
    if (claim(bytes)) break;
    const bool is_alone = all_.body_count_ == 1 && waited > short_stall;
    if (is_alone || waited >= max_wait) co_return no_room_for_bodies();
    auto wake = co_await room_.wait(loop.now() + look_interval);
    static_cast<void>(wake);
    if (ended_) co_return no_room_for_bodies();
  }
  co_return Done{};
}

}  // namespace evenkeel
