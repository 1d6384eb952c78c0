#include "pool/slowness_detector.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "evenkeel/base/log.h"

namespace evenkeel {
namespace {

constexpr Duration interval = std::chrono::seconds(1);
constexpr int needed_confirmations = 3;
constexpr std::uint64_t min_samples = 3;
constexpr double recent_picks_per_backend = 40;

struct Rule {
  SlowPart part;
  RecentLatency RecentSummary::* latency;
  double begins;          // ratio to the median of the others
  double min_difference;  // in seconds: small times vary
};

constexpr double ends = 2;
constexpr Rule rules[] = {
    {SlowPart::per_token, &RecentSummary::per_token, 3, 0.002},
    {SlowPart::first_token, &RecentSummary::first_byte, 4, 0.02},
    {SlowPart::response, &RecentSummary::total, 4, 0.02},
};

std::optional<double> seconds_of_median(const RecentLatency& latency) {
  if (latency.samples < min_samples || !latency.median) return std::nullopt;
  return seconds_of(*latency.median);
}

/// The median of the sorted values but this one, the lower of two. REQUIRES: there are two or more.
double median_of_others(const std::vector<double>& sorted, double own) {
  const auto at = static_cast<std::size_t>(std::ranges::lower_bound(sorted, own) - sorted.begin());
  const std::size_t middle = (sorted.size() - 2) / 2;
  return sorted[middle + (middle >= at ? 1 : 0)];
}

}  // namespace

void SlownessDetector::tick(const PoolState& pool, Instant now) {
  if (now - last_tick_ < interval) return;
  last_tick_ = now;
  sync_records(records_, pool.backends(), [](const Backend& backend) {
    return Record{.picks = backend.slots().picks_total()};
  });
  count_picks(pool);
  compare(pool, now);
}

/// The share of a backend fades with the picks of its pool, not with time: it is still known when
/// the pool is idle.
void SlownessDetector::count_picks(const PoolState& pool) {
  const Backends& backends = pool.backends();
  double picks = 0;
  double serving = 0;
  for (const auto& backend : backends) {
    const Record& record = records_.at(&backend->shared());
    picks += static_cast<double>(backend->slots().picks_total() - record.picks);
    serving += backend->state().in_rotation();
  }
  if (picks == 0) return;
  const double memory = recent_picks_per_backend * std::max(serving, 1.0);
  const double kept = std::exp(-picks / memory);
  recent_picks_ = recent_picks_ * kept + picks;
  for (const auto& backend : backends) {
    SharedBackend& shared = backend->shared();
    Record& record = records_.at(&shared);
    const auto own = static_cast<double>(shared.slots.picks_total() - record.picks);
    record.picks = shared.slots.picks_total();
    record.recent_picks = record.recent_picks * kept + own;
    const bool known = shared.state.in_rotation() && serving > 1 && recent_picks_ >= 10 * serving;
    shared.findings.set_pick_share(
        known ? static_cast<float>(record.recent_picks * serving / recent_picks_) : -1);
  }
}

void SlownessDetector::compare(const PoolState& pool, Instant now) {
  const Backends& backends = pool.backends();
  std::vector<RecentSummary> summaries;
  summaries.reserve(backends.size());
  for (const auto& backend : backends) summaries.push_back(backend->stats().recent_summary(now));
  const bool streams = std::ranges::any_of(
      summaries, [](const RecentSummary& each) { return each.per_token.samples > 0; });

  std::vector<Slowness> seen(backends.size());
  std::vector<double> sorted;
  for (const Rule& rule : rules) {
    // Without streams, the first token comes with the last byte.
    const SlowPart other = streams ? SlowPart::response : SlowPart::first_token;
    if (rule.part == other) continue;
    sorted.clear();
    for (const RecentSummary& summary : summaries) {
      if (const auto median = seconds_of_median(summary.*rule.latency)) sorted.push_back(*median);
    }
    if (sorted.size() < 2) continue;
    std::ranges::sort(sorted);
    for (std::size_t i = 0; i < backends.size(); ++i) {
      const auto own = seconds_of_median(summaries[i].*rule.latency);
      if (!own || seen[i].ratio > 0) continue;
      const Slowness before = backends[i]->findings().slowness();
      const bool goes_on = before.ratio > 0 && before.part == rule.part;
      const double others = median_of_others(sorted, *own);
      const double ratio = *own / others;
      if (ratio < (goes_on ? ends : rule.begins) || *own - others < rule.min_difference) continue;
      seen[i] = {.ratio = static_cast<float>(ratio), .part = rule.part};
    }
  }
  for (std::size_t i = 0; i < backends.size(); ++i) update(pool, *backends[i], seen[i]);
}

void SlownessDetector::update(const PoolState& pool, const Backend& backend, Slowness seen) {
  SharedBackend& shared = backend.shared();
  int& confirmations = records_.at(&shared).confirmations;
  const bool was_slow = shared.findings.slowness().ratio > 0;
  const bool is_slow = seen.ratio > 0;
  if (was_slow && is_slow) {
    confirmations = 0;
    shared.findings.set_slowness(seen);
  } else if (was_slow == is_slow) {
    confirmations = 0;
  } else if (++confirmations == needed_confirmations) {
    confirmations = 0;
    shared.findings.set_slowness(seen);
    if (is_slow) {
      log::outlier.warning(fmt::format("pool {}: {} is slow: {}", pool.config().name, backend.id(),
                                       describe_slowness(seen)));
    } else {
      log::outlier.info(
          fmt::format("pool {}: {} is no longer slow", pool.config().name, backend.id()));
    }
  }
}

}  // namespace evenkeel
