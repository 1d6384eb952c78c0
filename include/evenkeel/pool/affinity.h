// The pinned sessions of one version of a pool.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "evenkeel/backend/backend.h"
#include "evenkeel/config/config.h"
#include "evenkeel/picker/hint.h"
#include "evenkeel/pool/affinity_table.h"

namespace evenkeel {

/// The sessions of a pool, for people. Ids are those of backends; empty: this version has none.
struct SessionListing {
  struct Session {
    std::uint64_t key = 0;  ///< a hash of what names it
    std::string backend;
    std::chrono::seconds idle{};
    bool confirmed = false;  ///< true if a request of it was answered
    bool has_state = false;  ///< true if only the backend knows what it is about
  };
  struct Move {
    std::uint64_t key = 0;
    std::string from;
    std::string to;
    Duration age{};
  };
  std::vector<Session> newest;            ///< those used last, the last one first
  std::vector<Move> moves;                ///< the last one first
  std::vector<std::uint64_t> by_backend;  ///< how many each has, in the order of the pool
};

/// The table of pins, which passes from version to version, and the backends that its tags mean in
/// this one.
///
/// Thread: any; `tick`: the control thread.
class Affinity {
 public:
  /// A pin as `find` saw it. Without a backend: there is none, or it does not hold.
  struct Pin {
    AffinityTable::Tag tag = AffinityTable::none;
    const BackendPtr* backend = nullptr;
    bool confirmed = false;

    /// True if only the backend that the session is pinned to knows what it is about.
    bool has_state() const { return (tag & AffinityTable::state_bit) != 0; }
  };

  Affinity(const AffinityConfig& spec, std::shared_ptr<const Backends> backends,
           const Affinity* predecessor);

  /// Makes this the active version: the table gets its size.
  void activate();
  /// No version of the pool has sessions any more.
  void close() { table_->close(); }
  /// AffinityTable::take_former.
  std::shared_ptr<const void> take_former() { return table_->take_former(); }

  Pin find(const SessionHint& session, Instant now) const;
  /// Pins a session to the backend that was picked for it. False if another request has pinned it
  /// since `before`.
  bool pin(const SessionHint& session, const Pin& before, const BackendPtr& backend,
           Instant now) const;
  /// A request of the session was answered by the backend that it was placed on.
  void confirm(const SessionHint& session, const Backend& backend, Instant now) const;
  void count_hit(const SessionHint& session) const {
    table_->count(session.key, AffinityTable::Use::hit);
  }
  /// Pins a soft session where it was placed, wherever it was. True if it is confirmed there.
  bool follow(const SessionHint& session, const BackendPtr& backend, Instant now) const;
  /// Counts a request of a session whose state is gone with its backend.
  void count_lost() const { lost_.fetch_add(1, std::memory_order_relaxed); }
  bool knows(std::uint64_t session, Instant now) const {
    return (table_->find(session, spec_.ttl, now) & AffinityTable::state_bit) != 0;
  }
  AnswerPins answer_pins(const Backend& backend) const {
    return {table_, AffinityTable::tag_of(backend.id()), spec_.ttl};
  }
  std::vector<AffinityTable::Saved> saved(Instant now) const {
    return table_->saved(spec_.ttl, now);
  }
  void restore(std::span<const AffinityTable::Saved> sessions, Instant now) const {
    table_->restore(sessions, spec_.ttl, now);
  }
  AffinityStats stats() const { return table_->stats(); }
  const AffinityConfig& spec() const { return spec_; }
  /// Returns at most `max` sessions, and the last moves. Takes as long as AffinityTable::list.
  /// Thread: the control thread.
  SessionListing list(std::size_t max, Instant now) const;

  /// Releases the sessions of backends that are gone since the last tick, with one line in the log
  /// for each, and forgets some of the idle ones. Those whose state is at the backend stay: it may
  /// come back with it, and until then their requests are refused.
  void tick(std::string_view pool, Instant now);

  /// True if the backend keeps its sessions, as in rotation. An operator's drain and the leave of a
  /// standby backend end only the arrival of new ones. A session moves from a backend that cannot
  /// be connected, but a sequence, whose state is there, only if connecting fails again and again.
  static bool holds(const SharedBackend& shared, bool has_state, Instant now);

 private:
  using Tag = AffinityTable::Tag;
  /// A backend of a former version, which this one does not have.
  struct Removed {
    Tag tag;
    std::string id;
  };

  const BackendPtr* backend_of(Tag tag) const;

  AffinityConfig spec_;
  std::shared_ptr<const Backends> backends_;
  std::vector<std::pair<Tag, std::size_t>> by_tag_;  // sorted
  std::shared_ptr<AffinityTable> table_;
  AffinityTable::Storage storage_;              // until `activate`; null: the table has its size
  std::vector<Removed> removed_;                // until the next tick
  std::vector<bool> gone_;                      // of each backend, at the last tick
  mutable std::atomic<std::uint32_t> lost_{0};  // requests, since the last line in the log
  Instant lost_logged_{};
};

}  // namespace evenkeel
