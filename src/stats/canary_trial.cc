#include "evenkeel/stats/canary_trial.h"

#include <utility>

namespace evenkeel {
namespace {

constexpr int count_bits = 14;
constexpr std::uint64_t max_count = (1U << count_bits) - 1;
constexpr int number_shift = 3 * count_bits;
constexpr std::uint64_t number_mask = ~std::uint64_t{0} >> number_shift;
/// The share of first tokens that may be late.
constexpr double slow_share = 0.05;

constexpr std::uint64_t count_at(std::uint64_t word, int place) {
  return word >> place * count_bits & max_count;
}
constexpr std::uint64_t one_at(int place) { return std::uint64_t{1} << place * count_bits; }

/// The word, with its counts halved if they are full: their ratios stay.
constexpr std::uint64_t with_room(std::uint64_t word) {
  if (count_at(word, 0) < max_count) return word;
  std::uint64_t halved = word >> number_shift << number_shift;
  for (int place = 0; place < 3; ++place) halved |= count_at(word, place) / 2 << place * count_bits;
  return halved;
}

constexpr int requests_place = 0;
constexpr int failures_place = 1;
constexpr int slow_place = 2;

}  // namespace

std::string_view to_string(CanaryVerdict verdict) {
  switch (verdict) {
    case CanaryVerdict::on_trial: return "on_trial";
    case CanaryVerdict::too_many_errors: return "too_many_errors";
    case CanaryVerdict::too_slow: return "too_slow";
  }
  return "";
}

/// The number of a part of time, from 1, since 0 is that of words never written.
std::uint64_t CanaryTrial::number_of(Instant time) const {
  const auto number = static_cast<std::uint64_t>(time.time_since_epoch() / part_);
  return number % number_mask + 1;
}

bool CanaryTrial::count(bool failed, Duration first_token, Instant now) {
  if (has_ended()) return false;
  const bool is_slow = bounds_.ttft > Duration{} && first_token > bounds_.ttft;
  const std::uint64_t added = one_at(requests_place) + (failed ? one_at(failures_place) : 0) +
                              (is_slow ? one_at(slow_place) : 0);
  const std::uint64_t number = number_of(now);
  std::atomic<std::uint64_t>& word = counts_[number % parts];
  std::uint64_t before = word.load(std::memory_order_relaxed);
  std::uint64_t after = 0;
  do {
    const bool is_present = before >> number_shift == number;
    after = (is_present ? with_room(before) : number << number_shift) + added;
  } while (!word.compare_exchange_weak(before, after, std::memory_order_relaxed));

  const CanaryVerdict verdict = judge(counts_at(number));
  if (verdict == CanaryVerdict::on_trial) return false;
  ended_in_.store(number, std::memory_order_relaxed);
  auto expected = CanaryVerdict::on_trial;
  return verdict_.compare_exchange_strong(expected, verdict, std::memory_order_release,
                                          std::memory_order_relaxed);
}

CanaryTrial::Counts CanaryTrial::counts_at(std::uint64_t number) const {
  Counts sums;
  for (const auto& each : counts_) {
    const std::uint64_t word = each.load(std::memory_order_relaxed);
    const std::uint64_t age = number - (word >> number_shift);
    if (word == 0 || age >= parts) continue;
    sums.requests += static_cast<std::uint32_t>(count_at(word, requests_place));
    sums.failures += static_cast<std::uint32_t>(count_at(word, failures_place));
    sums.slow += static_cast<std::uint32_t>(count_at(word, slow_place));
  }
  return sums;
}

CanaryVerdict CanaryTrial::judge(const Counts& counts) const {
  if (counts.requests < bounds_.min_requests) return CanaryVerdict::on_trial;
  if (bounds_.error_rate > 0 && counts.failures > bounds_.error_rate * counts.requests)
    return CanaryVerdict::too_many_errors;
  if (bounds_.ttft > Duration{} && counts.slow > slow_share * counts.requests)
    return CanaryVerdict::too_slow;
  return CanaryVerdict::on_trial;
}

CanaryTrial::Counts CanaryTrial::counts(Instant now) const {
  return counts_at(has_ended() ? ended_in_.load(std::memory_order_relaxed) : number_of(now));
}

void CanaryTrial::restart() {
  for (auto& each : counts_) each.store(0, std::memory_order_relaxed);
  verdict_.store(CanaryVerdict::on_trial, std::memory_order_release);
}

}  // namespace evenkeel
