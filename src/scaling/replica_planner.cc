#include "evenkeel/scaling/replica_planner.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace evenkeel {
namespace {

using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;

constexpr double unknown = std::numeric_limits<double>::quiet_NaN();

/// Time constants, in seconds: of the load, of the rate of arrivals, and of the mean work of one.
constexpr double load_seconds = 10;
constexpr double rate_seconds = 20;
constexpr double price_memory_seconds = 300;

/// A trend is a line through the last minutes, at least as many as a replica needs to start.
constexpr Duration level_interval = seconds(10);
constexpr Duration min_trend_window = minutes(2);
constexpr Duration max_trend_window = minutes(10);
constexpr std::size_t min_levels = 6;
/// A forecast is no more than this many times the demand.
constexpr double max_growth = 2;

/// Replicas stay for this long at least.
constexpr Duration min_hold = minutes(1);

constexpr Duration history_interval = minutes(10);
constexpr std::int64_t day_intervals = hours(24) / history_interval;
constexpr std::int64_t week_intervals = 7 * day_intervals;

/// Demands below this are rounding.
constexpr double rounding = 1e-3;

constexpr std::array<std::string_view, 9> names = {
    "idle", "waiting", "load", "work", "trend", "history", "held", "starting", "unknown"};

std::int64_t history_number(Instant now) { return now.time_since_epoch() / history_interval; }

}  // namespace

std::string_view to_string(ScalingReason reason) { return names[static_cast<std::size_t>(reason)]; }

/// The rate of arrivals, and what one of them costs.
void ReplicaPlanner::measure_work(const PoolSample& sample, double passed) {
  const PredictedWork& work = *sample.work;
  if (work.capacity > 0) capacity_ = work.capacity;
  // A scheduler that was made again counts from 0.
  const bool begins = work.arrived_total < seen_.arrived_total ||
                      work.priced_total < seen_.priced_total || work.work_sum < seen_.work_sum;
  if (!begins && passed > 0) {
    const auto arrived = static_cast<double>(work.arrived_total - seen_.arrived_total);
    arrival_rate_ += (arrived / passed - arrival_rate_) * (1 - std::exp(-passed / rate_seconds));
    const double kept = std::exp(-passed / price_memory_seconds);
    priced_ = priced_ * kept + static_cast<double>(work.priced_total - seen_.priced_total);
    priced_seconds_ = priced_seconds_ * kept + seconds_of(work.work_sum - seen_.work_sum);
  }
  seen_ = work;
}

/// Returns replicas at capacity; NaN: nothing tells. The larger of what requests cost and what is
/// seen.
double ReplicaPlanner::demand_of(const PoolSample& sample, double passed) {
  double of_work = unknown;
  plan_.work.reset();
  plan_.capacity.reset();
  if (sample.work) {
    measure_work(sample, passed);
    if (priced_ > 0 && capacity_ > 0) {
      const double mean = priced_seconds_ / priced_;
      const double patience = std::max(seconds_of(sample.patience), 1.0);
      plan_.work = mean * (arrival_rate_ + static_cast<double>(sample.waiting) / patience);
      plan_.capacity = capacity_;
      of_work = *plan_.work / capacity_;
    }
  }
  if (std::isnan(sample.load)) {
    load_.reset();
  } else if (!load_) {
    load_ = sample.load;
  } else {
    *load_ += (sample.load - *load_) * (1 - std::exp(-passed / load_seconds));
  }
  plan_.load = load_;
  const double of_load = load_.value_or(unknown);
  plan_.reason =
      of_load > of_work || std::isnan(of_work) ? ScalingReason::load : ScalingReason::work;
  return std::fmax(of_work, of_load);  // ignores NaN
}

/// Keeps what trends and other days are learned from.
void ReplicaPlanner::record(double demand, Instant now) {
  if (levels_.empty() || now - levels_.back().at >= level_interval)
    levels_.push_back({.at = now, .demand = demand});
  while (now - levels_.front().at > max_trend_window) levels_.pop_front();

  const std::int64_t number = history_number(now);
  if (number != week_number_) {
    begin_interval(number);
    week_number_ = number;
    week_sum_ = 0;
    week_count_ = 0;
  }
  week_sum_ += demand;
  ++week_count_;
}

/// Keeps the mean of the interval that has ended. Until then its place has that of a week before.
void ReplicaPlanner::begin_interval(std::int64_t number) {
  week_.resize(week_intervals, static_cast<float>(unknown));
  if (week_number_ < 0) return;
  of_week(week_number_) = static_cast<float>(week_sum_ / week_count_);
  const std::int64_t last = std::min(number - 1, week_number_ + week_intervals);
  for (std::int64_t each = week_number_ + 1; each <= last; ++each)
    of_week(each) = static_cast<float>(unknown);
}

float& ReplicaPlanner::of_week(std::int64_t number) {
  return week_[static_cast<std::size_t>(number % week_intervals)];
}

/// Returns replicas, over the horizon, by the line of least squares less its standard error; at
/// least 0.
double ReplicaPlanner::growth(Instant now, Duration horizon, Duration window) {
  plan_.trend = 0;
  double count = 0;
  double mean_time = 0;
  double mean_demand = 0;
  const auto in_window = [&](const Past& past) { return now - past.at <= window; };
  for (const Past& past : levels_) {
    if (!in_window(past)) continue;
    count += 1;
    mean_time += (seconds_of(past.at - now) - mean_time) / count;
    mean_demand += (past.demand - mean_demand) / count;
  }
  if (count < min_levels) return 0;
  double times = 0;
  double products = 0;
  double squares = 0;
  for (const Past& past : levels_) {
    if (!in_window(past)) continue;
    const double time = seconds_of(past.at - now) - mean_time;
    const double demand = past.demand - mean_demand;
    times += time * time;
    products += time * demand;
    squares += demand * demand;
  }
  const double slope = products / times;
  const double rest = std::max(0.0, squares - slope * products) / (count - 2);
  const double error = std::sqrt(rest / times);
  plan_.trend = slope * 60;
  return std::max(0.0, slope - error) * seconds_of(horizon);
}

/// What `demand` becomes until then if it changes as at this hour of yesterday and of a week ago:
/// the least of those that are kept, and no more than there was. Nothing: none is.
std::optional<double> ReplicaPlanner::history_at(double demand, Instant now, Duration horizon) {
  std::optional<double> least;
  const std::int64_t current = history_number(now);
  for (const std::int64_t ago : {day_intervals, week_intervals}) {
    const double then = of_week(current + week_intervals - ago);
    double most = unknown;
    for (std::int64_t next = current + 1; next <= history_number(now + horizon); ++next)
      most = std::fmax(most, of_week(next + week_intervals - ago));
    if (std::isnan(then) || std::isnan(most)) continue;
    const double expected = std::min(demand + most - then, most);
    least = std::min(least.value_or(expected), expected);
  }
  return least;
}

/// The largest since then, with `demand` of now.
double ReplicaPlanner::largest_since(Instant since, double demand, Instant now) {
  while (!held_.empty() && held_.back().demand <= demand) held_.pop_back();
  held_.push_back({.at = now, .demand = demand});
  while (held_.front().at < since) held_.pop_front();
  return held_.front().demand;
}

/// Returns replicas at `target`. Sets the reason if it is not what is there now.
double ReplicaPlanner::forecast(double demand, const ScalingConfig& config, Instant now) {
  const Duration horizon = config.start_time;
  const Duration window = std::clamp<Duration>(2 * horizon, min_trend_window, max_trend_window);
  const double growing = std::min(demand + growth(now, horizon, window), max_growth * demand);
  const double repeated = history_at(demand, now, horizon).value_or(0);
  double most = demand;
  const auto consider = [&](double other, ScalingReason reason) {
    // What makes no difference is no reason.
    if (std::ceil(other / config.target - rounding) > std::ceil(most / config.target - rounding))
      plan_.reason = reason;
    most = std::max(most, other);
  };
  consider(growing, ScalingReason::trend);
  consider(repeated, ScalingReason::history);
  plan_.trend /= config.target;
  return most / config.target;
}

/// How many there are to be, without `min` and `max`.
double ReplicaPlanner::wanted(const PoolSample& sample, double planned, Duration hold,
                              Instant now) {
  const auto raise = [this](double& value, double other, ScalingReason reason) {
    if (std::ceil(other - rounding) > std::ceil(value - rounding)) plan_.reason = reason;
    value = std::max(value, other);
  };
  double most = planned;
  raise(most, largest_since(now - hold, planned, now), ScalingReason::held);
  if (now - *began_ < hold) raise(most, sample.replicas, ScalingReason::starting);
  const bool is_used = busy_at_ != Instant{} && now - busy_at_ < hold;
  if (!is_used && most <= rounding) plan_.reason = ScalingReason::idle;
  if (is_used && most < 1) most = 1;
  return most;
}

const ReplicaPlan& ReplicaPlanner::update(const PoolSample& sample, const ScalingConfig& config,
                                          Instant now) {
  const double passed = began_ ? seconds_of(now - last_) : 0;
  if (!began_) began_ = now;
  last_ = now;
  const bool is_idle = sample.in_flight == 0 && sample.waiting == 0;
  if (!is_idle) busy_at_ = now;
  const Duration hold = std::max<Duration>(config.start_time, min_hold);

  double demand = demand_of(sample, passed);
  if (std::isnan(demand) && is_idle) demand = 0;
  double most = sample.replicas;
  if (std::isnan(demand)) {
    plan_.reason = ScalingReason::unknown;
    plan_.trend = 0;
    most = std::max(most, 1.0);
    plan_.demand = most;
    largest_since(now - hold, 0, now);
  } else {
    if (demand < rounding) demand = 0;
    record(demand, now);
    plan_.demand = forecast(demand, config, now);
    most = wanted(sample, plan_.demand, hold, now);
  }
  if (sample.replicas == 0 && sample.waiting > 0 && most <= 1)
    plan_.reason = ScalingReason::waiting;
  const double whole = std::ceil(most - rounding);
  plan_.desired = static_cast<std::uint32_t>(
      std::clamp<double>(whole, config.min, std::max(config.min, config.max)));
  return plan_;
}

}  // namespace evenkeel
