// The answers that a pool keeps for identical requests to come.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "evenkeel/base/clock.h"
#include "evenkeel/base/hash.h"

namespace evenkeel {

/// What tells requests from each other: two hashes with secret seeds of their own, so that not even
/// a client that chooses its requests finds two with the same key.
struct AnswerKey {
  WideHash first;
  WideHash second;
  std::uint64_t body_bytes = 0;

  bool operator==(const AnswerKey&) const = default;
};

struct AnswerKeyHash {
  std::size_t operator()(const AnswerKey& key) const { return key.first.low; }
};

/// A complete answer of status 200. Immutable.
struct KeptAnswer {
  struct Field {
    std::string name;
    std::string value;
  };
  std::vector<Field> fields;
  std::string body;
  bool has_length = true;  ///< false: it came as a stream
  Instant stored{};
  Instant fresh_until{};
  Instant stale_until{};  ///< it may be used until then, while no backend answers

  std::size_t size() const;
};

using KeptAnswerPtr = std::shared_ptr<const KeptAnswer>;

/// Keeps answers up to a number of bytes; those that were used longest ago make room. Each worker
/// locks one of its parts for a few instructions, for requests whose answers may be kept only.
///
/// Thread: any.
class AnswerCache {
 public:
  AnswerCache();
  AnswerCache(const AnswerCache&) = delete;
  AnswerCache& operator=(const AnswerCache&) = delete;

  /// Secret seeds for the hashes of keys.
  using Seeds = std::array<std::uint64_t, 2>;
  const Seeds& seeds() const { return seeds_; }
  static Seeds new_seeds();

  /// How many bytes all answers may take. What is beyond is dropped as new ones come.
  void set_capacity(std::uint64_t bytes);
  /// The largest answer that is kept.
  std::uint64_t max_answer_bytes() const;

  /// The answer, fresh or stale; null if there is none that may be used.
  KeptAnswerPtr find(const AnswerKey& key, Instant now);
  /// Replaces one with the same key. `age`: what `age()` was when its request began: an answer from
  /// before a `clear` is not kept.
  void keep(const AnswerKey& key, KeptAnswerPtr answer, std::uint64_t age);
  /// How often all answers have been dropped.
  std::uint64_t age() const { return age_.load(std::memory_order_relaxed); }
  /// Drops all answers; returns how many there were.
  std::size_t clear();

  struct Stats {
    std::uint64_t bytes = 0;
    std::uint64_t answers = 0;
  };
  Stats stats() const;

 private:
  struct Entry {
    AnswerKey key;
    KeptAnswerPtr answer;
  };
  using Entries = std::list<Entry>;  // the one that was used last is the first
  struct alignas(64) Part {
    mutable std::mutex mutex;
    Entries entries;
    std::unordered_map<AnswerKey, Entries::iterator, AnswerKeyHash> by_key;
    std::uint64_t bytes = 0;

    void move_out(Entries::iterator entry, Entries& to);
  };
  static constexpr std::size_t part_count = 16;

  Part& part_of(const AnswerKey& key) { return parts_[key.first.high % part_count]; }
  std::uint64_t part_capacity() const;

  const Seeds seeds_;
  std::array<Part, part_count> parts_;
  std::atomic<std::uint64_t> capacity_{0};
  std::atomic<std::uint64_t> age_{0};
};

}  // namespace evenkeel
