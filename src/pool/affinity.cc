#include "evenkeel/pool/affinity.h"

#include <fmt/format.h>

#include <algorithm>

#include "evenkeel/base/log.h"

namespace evenkeel {
namespace {

constexpr double expired_per_tick = 1.0 / 64;  // the whole table in six seconds
// Connecting failed so often in a row that the server, with the state of its sequences, is gone.
constexpr std::uint32_t failures_of_a_lost_server = 3;

constexpr Duration lost_log_interval = std::chrono::seconds(10);

/// True if the backend has lost the state of its sessions, or may not be used.
bool is_gone(const SharedBackend& shared) {
  return shared.state.other_reasons(OutOfRotation::draining, OutOfRotation::standby) != 0;
}

const char* why_gone(const SharedBackend& shared) {
  if (shared.state.is_out(OutOfRotation::ejected)) return "is ejected";
  if (shared.state.is_out(OutOfRotation::unresolved)) return "has no address";
  if (shared.state.is_out(OutOfRotation::sleeping)) return "sleeps";
  return "is down";
}

}  // namespace

Affinity::Affinity(const AffinityConfig& spec, std::shared_ptr<const Backends> backends,
                   const Affinity* predecessor)
    : spec_(spec), backends_(std::move(backends)), gone_(backends_->size()) {
  by_tag_.reserve(backends_->size());
  for (std::size_t i = 0; i < backends_->size(); ++i) {
    by_tag_.emplace_back(AffinityTable::tag_of((*backends_)[i]->id()), i);
  }
  std::sort(by_tag_.begin(), by_tag_.end());
  table_ = predecessor != nullptr ? predecessor->table_
                                  : std::make_shared<AffinityTable>(spec.max_sessions);
  if (table_->max_sessions() != spec.max_sessions)
    storage_ = AffinityTable::allocate(spec.max_sessions);
  if (predecessor == nullptr) return;
  for (const BackendPtr& backend : *predecessor->backends_) {
    const Tag tag = AffinityTable::tag_of(backend->id());
    const bool stays = std::any_of(by_tag_.begin(), by_tag_.end(),
                                   [tag](const auto& each) { return each.first == tag; });
    if (!stays) removed_.push_back({tag, backend->id()});
  }
}

void Affinity::activate() {
  if (storage_ != nullptr) table_->move_to(std::move(storage_));
}

bool Affinity::holds(const SharedBackend& shared, bool has_state, Instant now) {
  if (is_gone(shared)) return false;
  if (!shared.state.unreachable(now)) return true;
  return has_state && shared.state.connect_failures() < failures_of_a_lost_server;
}

Affinity::Pin Affinity::find(const SessionHint& session, Instant now) const {
  const auto [pinned, confirmed] = table_->look_up(session.key, spec_.ttl, now);
  Pin pin{.tag = pinned, .confirmed = confirmed};
  if (pin.tag == AffinityTable::none) return pin;
  const BackendPtr* const backend = backend_of(pin.tag);
  if (backend == nullptr) return pin;
  const bool has_state = session.has_state || pin.has_state();
  if (holds((*backend)->shared(), has_state, now)) pin.backend = backend;
  return pin;
}

/// Null if this version has no such backend.
const BackendPtr* Affinity::backend_of(Tag tag) const {
  tag &= ~AffinityTable::state_bit;
  const auto found =
      std::lower_bound(by_tag_.begin(), by_tag_.end(), std::pair{tag, std::size_t{0}});
  if (found == by_tag_.end() || found->first != tag) return nullptr;
  return &(*backends_)[found->second];
}

SessionListing Affinity::list(std::size_t max, Instant now) const {
  const AffinityTable::Listing found = table_->list(max, spec_.ttl, now);
  const auto id_of = [this](Tag tag) {
    const BackendPtr* const backend = backend_of(tag);
    return backend == nullptr ? std::string() : (*backend)->id();
  };
  SessionListing listing;
  for (const AffinityTable::Saved& each : found.newest) {
    listing.newest.push_back({.key = each.key,
                              .backend = id_of(each.tag),
                              .idle = each.idle,
                              .confirmed = each.confirmed,
                              .has_state = (each.tag & AffinityTable::state_bit) != 0});
  }
  for (const AffinityTable::Move& each : table_->moves()) {
    listing.moves.push_back({.key = each.key,
                             .from = id_of(each.from),
                             .to = id_of(each.to),
                             .age = std::max(now - each.time, Duration{})});
  }
  for (const BackendPtr& backend : *backends_) {
    const auto count = found.by_backend.find(AffinityTable::tag_of(backend->id()));
    listing.by_backend.push_back(count == found.by_backend.end() ? 0 : count->second);
  }
  return listing;
}

bool Affinity::pin(const SessionHint& session, const Pin& before, const BackendPtr& backend,
                   Instant now) const {
  const Tag tag = AffinityTable::tag_of(backend->id());
  // If the client does not return the name that it was given, its session makes room early.
  const Duration idle = session.is_unconfirmed ? spec_.ttl / 2 : Duration{};
  if (table_->pin(session.key, before.tag, tag, spec_.ttl, now, idle) != tag) return false;
  const bool moved = before.tag != AffinityTable::none && before.tag != tag && !session.starts;
  if (moved) {
    table_->count_move(session.key, before.tag, tag, now);
  } else {
    table_->count(session.key, AffinityTable::Use::miss);
  }
  return true;
}

void Affinity::confirm(const SessionHint& session, const Backend& backend, Instant now) const {
  if (session.is_unconfirmed || session.ends) return;
  table_->confirm(session.key, AffinityTable::tag_of(backend.id()), spec_.ttl, now);
}

bool Affinity::follow(const SessionHint& session, const BackendPtr& backend, Instant now) const {
  using Use = AffinityTable::Use;
  const Tag tag = AffinityTable::tag_of(backend->id());
  const auto [before, confirmed] = table_->look_up(session.key, spec_.ttl, now);
  const bool stays = before == tag;
  if (stays || before == AffinityTable::none) {
    table_->count(session.key, stays ? Use::hit : Use::miss);
  } else {
    table_->count_move(session.key, before, tag, now);
  }
  if (session.ends) {
    table_->forget(session.key);
  } else if (!stays) {
    table_->pin(session.key, before, tag, spec_.ttl, now);
  }
  return stays && confirmed;
}

void Affinity::tick(std::string_view pool, Instant now) {
  std::vector<Tag> tags;
  std::vector<std::string> lines;
  for (Removed& removed : std::exchange(removed_, {})) {
    tags.push_back(removed.tag);
    lines.push_back(std::move(removed.id) + " is removed");
  }
  for (std::size_t i = 0; i < backends_->size(); ++i) {
    const Backend& backend = *(*backends_)[i];
    const bool gone = is_gone(backend.shared());
    if (gone && !gone_[i]) {
      tags.push_back(AffinityTable::tag_of(backend.id()));
      lines.push_back(backend.id() + " " + why_gone(backend.shared()));
    }
    gone_[i] = gone;
  }
  if (!tags.empty()) {
    std::vector<std::uint64_t> counts(tags.size());
    table_->release(tags, counts);
    for (std::size_t i = 0; i < tags.size(); ++i) {
      if (counts[i] == 0) continue;
      log::affinity.warning(
          fmt::format("pool {}: {}, its sessions are released: {}", pool, lines[i], counts[i]));
    }
  }
  const bool is_due = now - lost_logged_ >= lost_log_interval;
  const std::uint32_t lost = is_due ? lost_.exchange(0, std::memory_order_relaxed) : 0;
  if (lost > 0) {
    lost_logged_ = now;
    log::affinity.warning(fmt::format(
        "pool {}: refused {} requests with session_lost: the backend that knows the id is gone",
        pool, lost));
  }
  table_->expire(expired_per_tick, spec_.ttl, now);
}

}  // namespace evenkeel
