// What one backend carries, as every worker sees it: places taken, errors, back-off, latencies.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>

#include "evenkeel/balance/peak_ewma.h"
#include "evenkeel/balance/signals.h"
#include "evenkeel/base/clock.h"
#include "evenkeel/base/result.h"

namespace evenkeel {

/// Why a backend gets no new requests at all. Several may hold at the same time.
enum class OutOfRotation : std::uint8_t {
  starting,    ///< nothing is known yet, or it says that it is loading
  unhealthy,   ///< its health checks fail
  draining,    ///< somebody asked for it
  standby,     ///< a spare that its pool does not need now
  unresolved,  ///< its name has no address
};

/// Counters of one backend. Atomics only, relaxed except where a reason is given; outlives reloads.
///
/// Thread: any.
class Load {
 public:
  /// How long a backend that cannot be connected is left alone: doubled each time.
  static constexpr Duration initial_backoff = std::chrono::seconds(1);
  static constexpr Duration max_backoff = std::chrono::seconds(10);

  // ---- Places: requests in flight, counted over all workers ----

  std::uint32_t in_flight() const { return live_.in_flight.load(std::memory_order_relaxed); }

  /// Room for one more; `limit` 0 is no limit.
  /// Sequentially consistent, as are `leave` and the waiting line's counter: of a request that
  /// begins to wait and a place that comes back at the same time, at least one sees the other.
  bool has_room(std::uint32_t limit) const {
    return limit == 0 || live_.in_flight.load(std::memory_order_seq_cst) < limit;
  }

  /// Takes a place if there is one. The count never exceeds the limit, not even for a moment: an
  /// excess that is undone later could hide a free place from somebody who then waits for ever.
  bool try_acquire(std::uint32_t limit) {
    if (limit == 0) {
      live_.in_flight.fetch_add(1, std::memory_order_relaxed);
      return true;
    }
    std::uint32_t seen = live_.in_flight.load(std::memory_order_relaxed);
    while (seen < limit) {
      if (live_.in_flight.compare_exchange_weak(seen, seen + 1, std::memory_order_relaxed)) {
        return true;
      }
    }
    return false;
  }

  /// How many places there are, under whichever configuration runs now; 0: no limit.
  std::uint32_t limit() const { return live_.limit.load(std::memory_order_relaxed); }
  void set_limit(std::uint32_t limit) { live_.limit.store(limit, std::memory_order_seq_cst); }

  void release() { live_.in_flight.fetch_sub(1, std::memory_order_seq_cst); }

  std::uint64_t picks_total() const { return live_.picks_total.load(std::memory_order_relaxed); }
  void count_pick() { live_.picks_total.fetch_add(1, std::memory_order_relaxed); }

  // ---- Closures: reasons to give it nothing new, set and cleared by the control thread ----

  /// No reason holds. A backend that is not open is never picked.
  bool in_rotation() const { return live_.out_reasons.load(std::memory_order_relaxed) == 0; }
  bool is_out(OutOfRotation reason) const {
    return (live_.out_reasons.load(std::memory_order_relaxed) & bit(reason)) != 0;
  }
  /// The reasons other than this one.
  std::uint32_t other_reasons(OutOfRotation reason) const {
    return live_.out_reasons.load(std::memory_order_relaxed) & ~bit(reason);
  }
  void take_out(OutOfRotation reason) {
    live_.out_reasons.fetch_or(bit(reason), std::memory_order_relaxed);
  }
  /// True if this was the last reason. Call Backend::reopen, which tells those who wait.
  bool clear(OutOfRotation reason) {
    return live_.out_reasons.fetch_and(~bit(reason), std::memory_order_seq_cst) == bit(reason);
  }

  /// What its engine and its GPU said last.
  Signals& signals() { return signals_; }
  const Signals& signals() const { return signals_; }

  // ---- Back-off: a server that cannot be connected is not asked while another stands ----

  /// Left alone at this time.
  bool in_backoff(Instant now) const {
    const Duration::rep until = live_.backoff_until.load(std::memory_order_relaxed);
    return until != 0 && now.time_since_epoch().count() < until;
  }
  /// Its last connects failed: left alone now, or on trial.
  bool needs_trial() const { return live_.backoff_until.load(std::memory_order_relaxed) != 0; }
  /// Leaves it alone for 1, 2, 4, 8, then 10 s, counted from now. Does nothing while it is left
  /// alone already: a hundred connects that fail together are one failure.
  void back_off(Instant now);
  /// Ends all suspicion. True if there was any.
  bool recover();
  std::uint32_t connect_failures() const {
    return live_.connect_failures.load(std::memory_order_relaxed);
  }

  // ---- What was seen of its speed ----

  /// The time to the first byte, as pickers see it.
  const PeakEwma& latency() const { return live_.latency; }
  /// The server was away, or has never been asked: it may have changed.
  void forget_latency() { live_.latency.forget(); }

  /// An answer has begun, this long after the request had been sent.
  void record_first_byte(Duration took, Instant now) {
    first_byte_.record(took);
    live_.latency.record(took, now);
  }
  /// The same of an answer that says that the server cannot, or of no answer at all: soon or late,
  /// it makes nobody look fast.
  void record_failure(Duration took, Instant now) { live_.latency.record_failure(took, now); }

  /// Answers that went through to their last byte, and the sum of what they took from the end of
  /// the request.
  void record_served(Duration took) { served_.record(took); }
  std::uint64_t served_total() const { return served_.count.load(std::memory_order_relaxed); }
  Duration served_sum() const { return Duration(served_.sum.load(std::memory_order_relaxed)); }

  /// What `weights: observed` has learnt; 0: nothing yet. Written by the control thread.
  float learned_weight() const { return learned_weight_.load(std::memory_order_relaxed); }
  void set_learned_weight(float weight) {
    learned_weight_.store(weight, std::memory_order_relaxed);
  }

  // ---- For people: the admin API and metrics ----

  void count_error(Fault fault) {
    errors_[static_cast<std::size_t>(fault)].fetch_add(1, std::memory_order_relaxed);
  }
  std::uint64_t errors_total(Fault fault) const {
    return errors_[static_cast<std::size_t>(fault)].load(std::memory_order_relaxed);
  }
  std::uint64_t errors_total() const;

  /// Requests that it has begun to answer.
  std::uint64_t responses_total() const {
    return first_byte_.count.load(std::memory_order_relaxed);
  }
  /// From the end of the request to the last byte of its answer.
  void record_total(Duration took) { total_.record(took); }
  /// Means over the backend's life; nothing before the first.
  std::optional<Duration> mean_first_byte() const { return first_byte_.mean(); }
  std::optional<Duration> mean_total() const { return total_.mean(); }

 private:
  static constexpr std::uint32_t bit(OutOfRotation reason) {
    return std::uint32_t{1} << static_cast<unsigned>(reason);
  }

  // What a pick reads and writes: one cache line.
  struct alignas(64) Live {
    std::atomic<std::uint32_t> in_flight{0};
    std::atomic<std::uint32_t> out_reasons{0};
    std::atomic<std::uint32_t> limit{0};
    std::atomic<std::uint32_t> connect_failures{0};
    std::atomic<Duration::rep> backoff_until{0};  // of the steady clock; 0: never failed
    std::atomic<std::uint64_t> picks_total{0};
    PeakEwma latency;
  };
  static_assert(sizeof(Live) == 64);

  struct Mean {
    std::atomic<std::uint64_t> count{0};
    std::atomic<Duration::rep> sum{0};

    void record(Duration took) {
      count.fetch_add(1, std::memory_order_relaxed);
      sum.fetch_add(took.count(), std::memory_order_relaxed);
    }
    std::optional<Duration> mean() const {
      const auto values = static_cast<Duration::rep>(count.load(std::memory_order_relaxed));
      if (values == 0) return std::nullopt;
      return Duration(sum.load(std::memory_order_relaxed) / values);
    }
  };

  Live live_;
  Signals signals_;
  alignas(64) Mean first_byte_;
  Mean total_;
  Mean served_;
  std::atomic<float> learned_weight_{0};
  std::array<std::atomic<std::uint64_t>, fault_count> errors_{};
};

}  // namespace evenkeel
