// Traced observations of a histogram: with them one goes from a bucket to the trace of a request.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>
#include <vector>

#include "evenkeel/base/clock.h"
#include "evenkeel/stats/sequence_lock.h"

namespace evenkeel {

/// One observation whose trace is exported.
struct Exemplar {
  std::array<char, 32> trace_id{};  ///< hexadecimal digits
  std::int64_t value = 0;           ///< nanoseconds
  std::int64_t time = 0;            ///< when it was observed: milliseconds since the epoch; 0: none

  bool exists() const { return time != 0; }
};

/// The trace of what is observed, and when.
struct ObservedTrace {
  std::string_view trace_id{};  ///< 32 hexadecimal digits; empty: the trace is not exported
  std::chrono::system_clock::time_point time{};
};

/// The last exemplar of each bucket. Allocates when the first one is recorded, and takes no lock.
///
/// Thread: `record` on one; `add_to` on any; `clear` on any while nothing is recorded.
class Exemplars {
 public:
  static constexpr std::size_t max_buckets = 20;

  Exemplars() = default;
  Exemplars(const Exemplars&) = delete;
  Exemplars& operator=(const Exemplars&) = delete;
  ~Exemplars();

  /// REQUIRES: `trace.trace_id` is not empty; bucket < max_buckets.
  void record(std::size_t bucket, Duration value, const ObservedTrace& trace);
  /// Puts in the exemplars that are later than those which are there. `exemplars`: by bucket; stays
  /// empty if there are none.
  void add_to(std::vector<Exemplar>& exemplars) const;
  void clear();

 private:
  static_assert(std::is_trivially_copyable_v<Exemplar>);
  static_assert(sizeof(Exemplar) % sizeof(std::uint64_t) == 0);
  using Slots = std::array<SequenceLocked<sizeof(Exemplar) / sizeof(std::uint64_t)>, max_buckets>;

  std::atomic<Slots*> slots_{nullptr};  // made with the first exemplar
};

}  // namespace evenkeel
