// How much of each limit is used, shared by all workers.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "evenkeel/base/clock.h"
#include "evenkeel/config/config.h"

namespace evenkeel {

/// The time on both clocks: rates are measured by the monotonic one, days and months by the
/// calendar in UTC.
struct QuotaTime {
  Instant now;
  std::chrono::system_clock::time_point wall;

  static QuotaTime current() { return {Clock::now(), std::chrono::system_clock::now()}; }
};

/// A limit of one subject: a tenant, an address.
struct Quota {
  std::uint64_t key = 0;  ///< a hash of the limit and its subject
  LimitRate rate;
  double burst = 1;  ///< the share of a second's, minute's or hour's amount that may come at once
};

/// Where a quota stands.
struct QuotaState {
  bool granted = false;
  std::uint64_t used = 0;       ///< may exceed its amount
  std::uint64_t remaining = 0;  ///< what it would still grant at once
  Duration reset{};             ///< until all of it is free again
  Duration retry_after{};       ///< until what was refused would be granted; `never_granted`: never

  static constexpr Duration never_granted = Duration::max();
};

/// What a request asks of a quota. Times stand for amounts of a second, minute or hour: an amount
/// is the time in which so much flows back.
struct QuotaDemand {
  LimitRate rate;
  bool is_rate = true;      ///< false: of a day or month
  std::int64_t most = 0;    ///< what may be used, in nanoseconds or as an amount
  std::int64_t cost = 0;    ///< the same unit
  std::int64_t period = 0;  ///< the number of the day or month
  Duration rest{};          ///< until it is over
};
QuotaDemand demand_of(const Quota& quota, std::uint64_t amount, const QuotaTime& time);
/// Where the quota stands after the demand; `used` before, in its unit.
QuotaState state_after(const QuotaDemand& demand, std::int64_t used);

/// What is used of quotas, in bounded memory.
///
/// Amounts per second, minute and hour follow the generic cell rate algorithm (GCRA, ITU-T I.371):
/// a quota is one time, at which it would be free again, so that an unused one needs no entry. In
/// any period at most its amount and its burst are granted. Amounts per day and month count from
/// the start of the calendar's day and month.
///
/// An entry whose quota is free again is reused for another one. When none of the few entries where
/// a quota may be is, a new one is refused: what is in use is never forgotten.
///
/// Thread: any. Takes a lock only to give an entry to another quota.
class QuotaTable {
 public:
  /// 16 bytes each.
  explicit QuotaTable(std::size_t max_quotas);
  QuotaTable(const QuotaTable&) = delete;
  QuotaTable& operator=(const QuotaTable&) = delete;

  /// Takes this amount, if so much is left.
  QuotaState take(const Quota& quota, std::uint64_t amount, const QuotaTime& time);
  /// Corrects an amount that was taken before by what it turned out to be: may exceed the quota,
  /// and never leaves more than all of it. What was taken yesterday is not given back today. Of a
  /// rate, part of what is given back has flowed back since it was taken: beyond the burst, at most
  /// what was taken and not used may so be granted at once, but no more in the long run.
  void settle(const Quota& quota, std::uint64_t taken, std::uint64_t used,
              const QuotaTime& taken_at, const QuotaTime& time);
  /// What a request of this amount would get.
  QuotaState look(const Quota& quota, std::uint64_t amount, const QuotaTime& time) const;

  /// Counts one more, if fewer than `most` are counted. Returns how many were counted before.
  std::optional<std::uint32_t> enter(std::uint64_t key, std::uint32_t most, const QuotaTime& time);
  /// REQUIRES: `enter` has counted it.
  void leave(std::uint64_t key);
  /// What is used of a quota, in a form that outlives the process. What is counted does not.
  struct Saved {
    std::uint64_t key = 0;
    std::int64_t value =
        0;  ///< when it is free again, in nanoseconds since 1970; or the use of a day or month

    bool operator==(const Saved&) const = default;
  };
  std::vector<Saved> saved(const QuotaTime& time) const;
  /// Continues with it. What is over by now, or cannot be, is ignored.
  void restore(const Saved& saved, const QuotaTime& time);

  /// How many are counted.
  std::uint32_t inside(std::uint64_t key) const;

 private:
  struct Entry {
    std::atomic<std::uint64_t> key{0};  // the kind in its lowest bits; 0: was never used
    std::atomic<std::int64_t> value{0};
  };

  template <class Next>
  bool change(std::uint64_t key, const QuotaTime& time, Next next);
  const Entry* find(std::uint64_t key) const;
  Entry* find_or_claim(std::uint64_t key, const QuotaTime& time);
  Entry* claim(std::uint64_t key, const QuotaTime& time);

  std::uint64_t start_of(std::uint64_t key) const;

  const std::size_t mask_;
  const std::uint64_t seed_;  // so that clients cannot choose whose places they take
  const std::unique_ptr<Entry[]> entries_;
  std::mutex claiming_;
  std::int64_t generation_ = 0;  // of counts; under `claiming_`
};

}  // namespace evenkeel
