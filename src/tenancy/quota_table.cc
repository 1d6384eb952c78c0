#include "evenkeel/tenancy/quota_table.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "evenkeel/base/rng.h"

namespace evenkeel {
namespace {

using std::chrono::nanoseconds;

/// Holds the product of two 64-bit numbers.
__extension__ using Wide = unsigned __int128;

/// What the value of an entry means, in the lowest bits of its key.
enum class Kind : std::uint8_t {
  count,  ///< a generation, then how many are inside
  rate,   ///< GCRA's theoretical arrival time, in nanoseconds of Clock
  day,    ///< the number of the day, then what is used of it
  month,
};

constexpr std::uint64_t kind_mask = 3;
constexpr int used_bits = 44;
constexpr std::int64_t used_mask = (std::int64_t{1} << used_bits) - 1;
constexpr std::int64_t count_mask = 0xffff'ffff;
constexpr std::int64_t max_time = std::numeric_limits<std::int64_t>::max() / 4;
constexpr std::int64_t claimed = std::numeric_limits<std::int64_t>::min();
/// A look-up reads at most this many entries: eight cache lines.
constexpr std::size_t max_distance = 32;

Kind kind_of(LimitPeriod period) {
  if (period == LimitPeriod::day) return Kind::day;
  return period == LimitPeriod::month ? Kind::month : Kind::rate;
}

Kind kind_of_key(std::uint64_t key) { return static_cast<Kind>(key & kind_mask); }

/// Never 0, which an entry has that was never used.
std::uint64_t key_of(std::uint64_t key, Kind kind) {
  return ((key | 4) & ~kind_mask) | static_cast<std::uint64_t>(kind);
}

std::uint64_t key_of(const Quota& quota) { return key_of(quota.key, kind_of(quota.rate.period)); }

std::int64_t nanoseconds_of(Instant now) {
  return std::chrono::duration_cast<nanoseconds>(now.time_since_epoch()).count();
}

std::int64_t length_of(LimitPeriod period) {
  switch (period) {
    case LimitPeriod::second: return nanoseconds(std::chrono::seconds(1)).count();
    case LimitPeriod::minute: return nanoseconds(std::chrono::minutes(1)).count();
    default: return nanoseconds(std::chrono::hours(1)).count();
  }
}

/// A day or a month of the calendar.
struct CalendarPeriod {
  std::int64_t number;
  Duration rest;  // until it is over

  CalendarPeriod(Kind kind, std::chrono::system_clock::time_point wall) {
    using namespace std::chrono;
    const sys_days day = floor<days>(wall);
    sys_days next = day + days(1);
    number = day.time_since_epoch().count();
    if (kind == Kind::month) {
      const year_month_day date(day);
      const year_month month = date.year() / date.month();
      number = int{date.year()} * 12 + static_cast<int>(unsigned{date.month()});
      next = sys_days((month + months(1)) / std::chrono::day(1));
    }
    rest = duration_cast<Duration>(next - wall);
  }
};

/// The time that this amount takes at the rate; rounded up, so that no amount is free.
std::int64_t time_of(std::uint64_t amount, const LimitRate& rate) {
  const auto length = static_cast<Wide>(length_of(rate.period));
  const Wide time = (Wide{amount} * length + rate.amount - 1) / rate.amount;
  return static_cast<std::int64_t>(std::min<Wide>(time, max_time));
}

std::uint64_t amount_in(std::int64_t time, const LimitRate& rate) {
  if (time <= 0) return 0;
  const auto length = static_cast<Wide>(length_of(rate.period));
  const Wide amount = static_cast<Wide>(time) * rate.amount / length;
  return static_cast<std::uint64_t>(
      std::min<Wide>(amount, std::numeric_limits<std::uint64_t>::max()));
}

/// True if nothing of the quota is used, so that another one may have its entry.
bool is_free(std::uint64_t key, std::int64_t value, const QuotaTime& time) {
  switch (kind_of_key(key)) {
    case Kind::count: return (value & count_mask) == 0;
    case Kind::rate: return value <= nanoseconds_of(time.now);
    case Kind::day:
    case Kind::month:
      return (value >> used_bits) < CalendarPeriod(kind_of_key(key), time.wall).number;
  }
  return false;
}

/// What is used of the quota, in the unit of a demand.
std::int64_t used_of(const QuotaDemand& demand, std::int64_t value, const QuotaTime& time) {
  if (demand.is_rate) return std::max<std::int64_t>(value - nanoseconds_of(time.now), 0);
  return value >> used_bits == demand.period ? value & used_mask : 0;
}

/// The value of a quota of which so much is used.
std::int64_t value_of(const QuotaDemand& demand, std::int64_t used, const QuotaTime& time) {
  if (demand.is_rate) return nanoseconds_of(time.now) + used;
  return demand.period << used_bits | std::min(used, used_mask);
}

/// The wall clock's time at an instant.
std::int64_t wall_nanoseconds(std::int64_t instant, const QuotaTime& time) {
  const auto wall = std::chrono::duration_cast<nanoseconds>(time.wall.time_since_epoch()).count();
  return wall + (instant - nanoseconds_of(time.now));
}

}  // namespace

QuotaDemand demand_of(const Quota& quota, std::uint64_t amount, const QuotaTime& time) {
  const Kind kind = kind_of(quota.rate.period);
  QuotaDemand demand{.rate = quota.rate, .is_rate = kind == Kind::rate};
  if (demand.is_rate) {
    // At least one unit can be granted at once.
    const auto length = static_cast<double>(length_of(quota.rate.period));
    demand.most = std::max(static_cast<std::int64_t>(length * quota.burst), time_of(1, quota.rate));
    demand.cost = time_of(amount, quota.rate);
    return demand;
  }
  const CalendarPeriod period(kind, time.wall);
  demand.most = static_cast<std::int64_t>(quota.rate.amount);
  demand.cost = static_cast<std::int64_t>(std::min(amount, static_cast<std::uint64_t>(used_mask)));
  demand.period = period.number;
  demand.rest = period.rest;
  return demand;
}

QuotaState state_after(const QuotaDemand& demand, std::int64_t used) {
  const std::int64_t beyond = used + demand.cost - demand.most;
  QuotaState state{.granted = beyond <= 0};
  const std::int64_t left = state.granted ? used + demand.cost : used;
  const auto amount_of = [&](std::int64_t value) {
    if (demand.is_rate) return amount_in(value, demand.rate);
    return static_cast<std::uint64_t>(std::max<std::int64_t>(value, 0));
  };
  state.used = amount_of(left);
  state.remaining = amount_of(demand.most - left);
  state.reset = demand.is_rate ? nanoseconds(left) : demand.rest;
  if (state.granted) return state;
  state.retry_after = demand.is_rate ? nanoseconds(beyond) : demand.rest;
  if (demand.cost > demand.most) state.retry_after = QuotaState::never_granted;
  return state;
}

QuotaTable::QuotaTable(std::size_t max_quotas)
    : mask_(std::bit_ceil(std::max(max_quotas, max_distance)) - 1),
      seed_(random_seed()),
      entries_(std::make_unique<Entry[]>(mask_ + 1)) {}

std::uint64_t QuotaTable::start_of(std::uint64_t key) const { return mix(key ^ seed_); }

const QuotaTable::Entry* QuotaTable::find(std::uint64_t key) const {
  const std::uint64_t start = start_of(key);
  for (std::size_t i = 0; i < max_distance; ++i) {
    const Entry& entry = entries_[(start + i) & mask_];
    const std::uint64_t present = entry.key.load(std::memory_order_acquire);
    if (present == key) return &entry;
    if (present == 0) return nullptr;
  }
  return nullptr;
}

QuotaTable::Entry* QuotaTable::find_or_claim(std::uint64_t key, const QuotaTime& time) {
  if (const Entry* found = find(key)) return const_cast<Entry*>(found);
  return claim(key, time);
}

/// A thread that has read the value of the entry for another quota cannot change it any more:
/// the value that it starts with is one that it has never had.
QuotaTable::Entry* QuotaTable::claim(std::uint64_t key, const QuotaTime& time) {
  const std::lock_guard lock(claiming_);
  if (const Entry* found = find(key)) return const_cast<Entry*>(found);
  const std::uint64_t start = start_of(key);
  for (std::size_t i = 0; i < max_distance; ++i) {
    Entry& entry = entries_[(start + i) & mask_];
    const std::uint64_t present = entry.key.load(std::memory_order_relaxed);
    std::int64_t value = entry.value.load(std::memory_order_relaxed);
    if (present != 0 && !is_free(present, value, time)) continue;
    if (!entry.value.compare_exchange_strong(value, claimed, std::memory_order_acq_rel)) continue;
    std::int64_t first = nanoseconds_of(time.now);
    const Kind kind = kind_of_key(key);
    if (kind == Kind::count) first = (++generation_ & 0x3fff'ffff) << 32;
    if (kind == Kind::day || kind == Kind::month)
      first = CalendarPeriod(kind, time.wall).number << used_bits;
    entry.key.store(key, std::memory_order_release);
    entry.value.store(first, std::memory_order_release);
    return &entry;
  }
  return nullptr;
}

/// Sets the value to what `next` returns for it. False: the table is full.
template <class Next>
bool QuotaTable::change(std::uint64_t key, const QuotaTime& time, Next next) {
  for (;;) {
    Entry* const entry = find_or_claim(key, time);
    if (entry == nullptr) return false;
    std::int64_t value = entry->value.load(std::memory_order_acquire);
    // Another quota has it by now, or will have.
    if (value == claimed || entry->key.load(std::memory_order_relaxed) != key) continue;
    const std::int64_t changed = next(value);
    if (changed == value) return true;
    if (entry->value.compare_exchange_weak(value, changed, std::memory_order_acq_rel)) return true;
  }
}

QuotaState QuotaTable::take(const Quota& quota, std::uint64_t amount, const QuotaTime& time) {
  const QuotaDemand demand = demand_of(quota, amount, time);
  QuotaState state{.retry_after = std::chrono::seconds(1)};
  change(key_of(quota), time, [&](std::int64_t value) {
    const std::int64_t used = used_of(demand, value, time);
    state = state_after(demand, used);
    return state.granted ? value_of(demand, used + demand.cost, time) : value;
  });
  return state;
}

QuotaState QuotaTable::look(const Quota& quota, std::uint64_t amount, const QuotaTime& time) const {
  const std::uint64_t key = key_of(quota);
  const Entry* const entry = find(key);
  std::int64_t value = entry == nullptr ? 0 : entry->value.load(std::memory_order_acquire);
  if (value == claimed || (entry != nullptr && entry->key.load(std::memory_order_relaxed) != key))
    value = 0;
  const QuotaDemand demand = demand_of(quota, amount, time);
  return state_after(demand, used_of(demand, value, time));
}

void QuotaTable::settle(const Quota& quota, std::uint64_t taken, std::uint64_t used,
                        const QuotaTime& taken_at, const QuotaTime& time) {
  if (taken == used) return;
  const bool is_more = used > taken;
  const QuotaDemand demand = demand_of(quota, is_more ? used - taken : taken - used, time);
  const bool is_over = !demand.is_rate && demand_of(quota, 0, taken_at).period != demand.period;
  if (is_over && !is_more) return;
  change(key_of(quota), time, [&](std::int64_t value) {
    const std::int64_t before = used_of(demand, value, time);
    const std::int64_t after = is_more ? std::min(before + demand.cost, max_time)
                                       : std::max<std::int64_t>(before - demand.cost, 0);
    return value_of(demand, after, time);
  });
}

std::optional<std::uint32_t> QuotaTable::enter(std::uint64_t key, std::uint32_t most,
                                               const QuotaTime& time) {
  std::optional<std::uint32_t> before;
  change(key_of(key, Kind::count), time, [&](std::int64_t value) {
    const auto inside = static_cast<std::uint32_t>(value & count_mask);
    before = inside < most ? std::optional(inside) : std::nullopt;
    return before ? value + 1 : value;
  });
  return before;
}

void QuotaTable::leave(std::uint64_t key) {
  change(key_of(key, Kind::count), QuotaTime{}, [](std::int64_t value) { return value - 1; });
}

std::vector<QuotaTable::Saved> QuotaTable::saved(const QuotaTime& time) const {
  std::vector<Saved> saved;
  for (std::size_t i = 0; i <= mask_; ++i) {
    const Entry& entry = entries_[i];
    const std::uint64_t key = entry.key.load(std::memory_order_acquire);
    const std::int64_t value = entry.value.load(std::memory_order_acquire);
    const Kind kind = kind_of_key(key);
    if (key == 0 || kind == Kind::count || value == claimed || is_free(key, value, time)) continue;
    if (entry.key.load(std::memory_order_relaxed) != key) continue;
    saved.push_back(
        {.key = key, .value = kind == Kind::rate ? wall_nanoseconds(value, time) : value});
  }
  return saved;
}

void QuotaTable::restore(const Saved& saved, const QuotaTime& time) {
  const Kind kind = kind_of_key(saved.key);
  std::int64_t value = saved.value;
  if (saved.key == 0 || kind == Kind::count) return;
  if (kind == Kind::rate) {
    const std::int64_t now = nanoseconds_of(time.now);
    const std::int64_t wall = wall_nanoseconds(now, time);
    if (value <= wall || value - wall > max_time) return;
    value = now + (value - wall);
  } else if (value >> used_bits != CalendarPeriod(kind, time.wall).number) {
    return;
  }
  change(saved.key, time, [value](std::int64_t present) { return std::max(present, value); });
}

std::uint32_t QuotaTable::inside(std::uint64_t key) const {
  const Entry* const entry = find(key_of(key, Kind::count));
  if (entry == nullptr) return 0;
  return static_cast<std::uint32_t>(entry->value.load(std::memory_order_relaxed) & count_mask);
}

}  // namespace evenkeel
