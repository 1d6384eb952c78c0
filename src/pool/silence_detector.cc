#include "pool/silence_detector.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "evenkeel/base/log.h"

namespace evenkeel {
namespace {

constexpr Duration min_patience = std::chrono::seconds(2);
constexpr double patience_factor = 5;  // of the highest average time to the first byte
constexpr std::uint32_t min_requests = 2;
constexpr std::uint64_t min_answers_of_others = 2;

/// How long a backend may leave requests unanswered while others answer. Its own average says
/// nothing: it rises with each client that gives up.
Duration patience(const Backends& backends, const SharedBackend& own) {
  double slowest = 0;
  for (const auto& backend : backends) {
    const SharedBackend& shared = backend->shared();
    if (&shared == &own || !shared.state.in_rotation() || shared.stats.latency().samples() == 0)
      continue;
    slowest = std::max(slowest, shared.stats.latency().seconds());
  }
  return std::max(min_patience, std::chrono::duration_cast<Duration>(
                                    std::chrono::duration<double>(patience_factor * slowest)));
}

std::uint64_t answers_of(const Backends& backends) {
  std::uint64_t sum = 0;
  for (const auto& backend : backends) sum += backend->stats().answers_total();
  return sum;
}

}  // namespace

void SilenceDetector::tick(const PoolState& pool, Instant now) {
  const Backends& backends = pool.backends();
  if (!pool.spec().notices_silence) return clear(backends);
  sync_records(records_, backends, [](const Backend& backend) {
    return Record{.answers = backend.stats().answers_total(),
                  .picks = backend.slots().picks_total(),
                  .last_picks = backend.slots().picks_total()};
  });
  const std::uint64_t all_answers = answers_of(backends);
  for (const BackendPtr& each : backends) {
    const Backend& backend = *each;
    SharedBackend& shared = backend.shared();
    Record& record = records_.at(&shared);
    const std::uint64_t answers = shared.stats.answers_total();
    const std::uint64_t picks = shared.slots.picks_total();
    const std::uint64_t picks_before = std::exchange(record.last_picks, picks);
    const bool is_idle = shared.slots.in_flight() == 0;
    const bool has_answered = answers != record.answers;
    if (has_answered || is_idle) {
      if (has_answered) backend.end_silence();
      if (has_answered && record.reported) {
        log::outlier.info(
            fmt::format("pool {}: {} answers again", pool.config().name, backend.id()));
      }
      const bool still_reported = record.reported && !has_answered;
      record = {.answers = answers,
                .picks = is_idle ? picks : picks_before,
                .last_picks = picks,
                .reported = still_reported};
      continue;
    }
    const Avoidance why = shared.state.why();
    const bool is_known = why == Avoidance::silent || why == Avoidance::ejected;
    if (is_known || picks == record.picks) continue;
    const std::uint32_t unanswered = shared.slots.in_its_hands();
    if (unanswered < min_requests) {
      record.has_waiting = false;
      continue;
    }
    const std::uint64_t peers_answers = all_answers - answers;
    if (!record.has_waiting) {
      record.has_waiting = true;
      record.waiting_since = now;
      record.peers_answers = peers_answers;
    }
    const Duration waited = now - record.waiting_since;
    const bool others_answer = peers_answers - record.peers_answers >= min_answers_of_others;
    if (!others_answer || waited < min_patience || waited < patience(backends, shared)) continue;
    shared.state.begin_silence(now);
    if (std::exchange(record.reported, true)) continue;
    log::outlier.warning(fmt::format(
        "pool {}: {} is avoided: it has answered none of {} requests for {:.1f} s while others "
        "answer",
        pool.config().name, backend.id(), unanswered, seconds_of(waited)));
  }
}

/// The pool has health checks now.
void SilenceDetector::clear(const Backends& backends) {
  if (records_.empty()) return;
  records_.clear();
  for (const auto& backend : backends) backend->end_silence();
}

}  // namespace evenkeel
