// Which backend each session of a pool is pinned to.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "evenkeel/base/clock.h"

namespace evenkeel {

/// What became of the requests with a session, and of the sessions.
struct AffinityStats {
  std::uint64_t sessions = 0;   ///< now
  std::uint64_t hits = 0;       ///< requests that went to the backend of their session
  std::uint64_t misses = 0;     ///< requests that began a session
  std::uint64_t moves = 0;      ///< requests whose session went to another backend
  std::uint64_t evictions = 0;  ///< sessions that were forgotten for lack of room
};

/// The pins of one pool. Workers share it, since the requests of a session come over any
/// connections.
///
/// A set-associative cache: a session hashes to one bucket of seven entries. A look-up reads the
/// bucket's two cache lines, takes no lock, and writes nothing but the time, once a second and
/// session: workers that serve many requests do not pass cache lines to and fro. It is repeated
/// if the bucket changed meanwhile. Only what changes a pin locks its bucket, for tens of
/// instructions; nothing in between allocates or blocks. A map with a lock and a list in order of
/// use would write both with every request.
///
/// Memory is bounded and allocated at once: 18 bytes for each of `max_sessions`. All versions of a
/// pool have one table, and when that gets another size they move together. A session that
/// finds its bucket full takes the place of the one that was idle longest. Buckets do not fill
/// evenly: with half of `max_sessions`, one in 80 is forgotten before its time, with a third one in
/// 500. A session is confirmed once a request of it has been answered. One that is not yet takes no
/// place from one that is, so that refused requests with fresh names displace only each other.
///
/// Thread: any.
class AffinityTable {
 public:
  /// Identifies a backend, across reloads and upgrades: 38 bits of the hash of its id, and a 0. Two
  /// backends of a pool of a thousand share one with a probability of 1 to half a million; then
  /// their sessions mix.
  using Tag = std::uint64_t;
  static constexpr Tag none = 0;
  static Tag tag_of(std::string_view backend_id);
  /// The bit that a tag has in place of the 0 if only that backend knows what the session is about,
  /// so that the pin outlives its absence.
  static constexpr Tag state_bit = 1;

  enum class Use : std::uint8_t { hit, miss, move };

  explicit AffinityTable(std::uint32_t max_sessions);
  AffinityTable(const AffinityTable&) = delete;
  AffinityTable& operator=(const AffinityTable&) = delete;

  struct Buckets;
  using Storage = std::shared_ptr<Buckets>;
  /// Returns storage for another number of sessions.
  static Storage allocate(std::uint32_t max_sessions);
  /// Moves all sessions into this storage, while the table may be in use: a millisecond for
  /// 100,000 of them. Thread: one at a time.
  void move_to(Storage storage);
  /// Forgets all sessions but the last few: no present version of the pool has any.
  void close();
  /// The memory that it has moved out of, to be freed once every other thread has done something
  /// else since. Null: none.
  std::shared_ptr<const void> take_former() { return std::exchange(former_, nullptr); }

  /// Where a session is pinned, and whether it is confirmed.
  struct Found {
    Tag tag = none;
    bool confirmed = false;
  };

  /// The backend that a session is pinned to, or `none`; to be used now. `session`: any hash.
  Found look_up(std::uint64_t session, Duration ttl, Instant now);
  Tag find(std::uint64_t session, Duration ttl, Instant now) {
    return look_up(session, ttl, now).tag;
  }
  /// Pins a session to `backend` if it is pinned to `before` now (`none`: to no backend). Returns
  /// where it is pinned then: to another one if another request was faster. `idle`: counts as not
  /// used for so long already. A new session that finds no place is not remembered until it is
  /// confirmed.
  Tag pin(std::uint64_t session, Tag before, Tag backend, Duration ttl, Instant now,
          Duration idle = {});
  /// A request of a session that `pin` has placed on this backend was answered: the pin stays,
  /// unless the session has moved on.
  void confirm(std::uint64_t session, Tag backend, Duration ttl, Instant now);
  /// Pins a session to `backend` wherever it was pinned, and counts nothing: an answer of the
  /// backend names it.
  void learn(std::uint64_t session, Tag backend, Duration ttl, Instant now);
  void forget(std::uint64_t session);
  /// Forgets the sessions of these backends, and adds their numbers to `counts`, of the same
  /// length. Looks at all entries: a millisecond for 100,000.
  void release(std::span<const Tag> backends, std::span<std::uint64_t> counts);
  /// Forgets idle sessions in the next `share` of the table. Makes the number of sessions true; a
  /// session that is too old counts for nothing even before.
  void expire(double share, Duration ttl, Instant now);

  /// What another process continues with.
  struct Saved {
    std::uint64_t key = 0;
    Tag tag = none;
    std::chrono::seconds idle{};
    bool confirmed = true;
    bool operator==(const Saved&) const = default;
  };
  std::vector<Saved> saved(Duration ttl, Instant now) const;
  /// Pins the sessions that are unknown here as they were in the other process.
  void restore(std::span<const Saved> pins, Duration ttl, Instant now);

  /// What the table holds, for people.
  struct Listing {
    std::vector<Saved> newest;                          ///< those used last, the last one first
    std::unordered_map<Tag, std::uint64_t> by_backend;  ///< sessions by tag, with the state bit 0
  };
  /// Returns at most `max` sessions. Looks at all entries: a millisecond for 100,000. Thread: the
  /// one that frees what `take_former` returns.
  Listing list(std::size_t max, Duration ttl, Instant now) const;

  /// A session that went from one backend to another.
  struct Move {
    std::uint64_t key = 0;  ///< as in `Saved`
    Tag from = none;
    Tag to = none;
    Instant time{};
  };
  static constexpr std::size_t max_moves = 64;
  /// Counts a move and remembers it among the last ones. Never waits: a move is not remembered
  /// while another one is being recorded or read.
  void count_move(std::uint64_t session, Tag from, Tag to, Instant now);
  /// Returns the last moves, the last one first.
  std::vector<Move> moves() const;

  void count(std::uint64_t session, Use use);
  std::uint32_t max_sessions() const;
  AffinityStats stats() const;

 private:
  static constexpr std::size_t ways = 7;
  /// Keys and values in a cache line each. A key is 0 where there is no entry. A reader that sees
  /// the same even sequence before and after it has read a key and its value has the two together.
  struct alignas(64) Bucket {
    /// Odd while locked; another one after each change, by which a reader sees that there was one.
    std::atomic<std::uint64_t> sequence{0};
    std::array<std::atomic<std::uint64_t>, ways> keys{};
    alignas(64) std::array<std::atomic<std::uint64_t>, ways> values{};
  };
  class Lock;
  struct Entry {
    std::uint64_t key;
    std::uint64_t value;
  };
  struct alignas(64) Uses {
    std::array<std::atomic<std::uint64_t>, 3> counts{};
  };

  Buckets& present() const { return *present_.load(std::memory_order_acquire); }
  void use_storage(Storage storage);
  static void copy_missing(const Buckets& from, Buckets& to, bool evicts);
  template <class Look>
  static auto read(const Bucket& bucket, const Look& look);
  static std::array<Entry, ways> entries_of(const Bucket& bucket);
  static std::pair<std::size_t, std::uint64_t> look(const Bucket& bucket, std::uint64_t key);
  static Found use(std::atomic<std::uint64_t>& place, std::uint64_t value, Duration ttl,
                   Instant now);

  std::atomic<Buckets*> present_;
  Storage storage_;
  std::shared_ptr<const void> former_;
  alignas(64) std::atomic<std::uint64_t> evictions_{0};
  std::array<Uses, 16> uses_{};  // by session, so that workers seldom write to the same one
  alignas(64) mutable std::atomic_flag moves_in_use_;  // held for the next two
  std::array<Move, max_moves> moves_{};                // a ring; without a key: none yet
  std::size_t next_move_ = 0;
};

/// Pins the sessions that an answer names to the backend that has given it. Thread: any.
class AnswerPins {
 public:
  AnswerPins(std::shared_ptr<AffinityTable> table, AffinityTable::Tag backend, Duration ttl)
      : table_(std::move(table)), backend_(backend), ttl_(ttl) {}

  /// The key of the id that a backend gave a response or a conversation: no session that a client
  /// has named has it.
  static std::uint64_t key_of_id(std::string_view id);

  /// `has_state`: only the backend knows what the session is about.
  void pin(std::uint64_t session, bool has_state, Instant now) const {
    table_->learn(session, backend_ | (has_state ? AffinityTable::state_bit : 0), ttl_, now);
  }

 private:
  std::shared_ptr<AffinityTable> table_;
  AffinityTable::Tag backend_;
  Duration ttl_;
};

}  // namespace evenkeel
