#include "evenkeel/balance/placed_request.h"

#include <algorithm>
#include <chrono>
#include <new>
#include <utility>

#include "balance/pool_scheduler.h"

namespace evenkeel {

// ---- PlacedRequest ----------------------------------------------------------------------------

PlacedRequest::PlacedRequest(std::shared_ptr<const ScheduledPool> pool, ScheduledSection& section,
                             Loop& loop, Priority priority)
    : pool_(std::move(pool)),
      scheduler_(pool_->scheduler()),
      section_(section),
      loop_(loop),
      priority_(priority) {}

void PlacedRequest::first_token(Instant now) {
  std::lock_guard lock(scheduler_.mutex_);
  if (stage_ != Stage::placed || first_token_seen_) return;
  first_token_seen_ = true;
  now = scheduler_.in_order(now);
  SchedulerStats& stats = scheduler_.stats_;
  ++stats.first_tokens_total;
  stats.predicted_ttft_sum += predicted_ttft_;
  stats.ttft_sum += now - placed_at_;
  stats.ttft_error_sum += std::chrono::abs(now - placed_at_ - predicted_ttft_);
  if (decision_ != nullptr) decision_->ttft = now - placed_at_;
  scheduler_.scheduler_.first_token(ticket_, now);
  scheduler_.pass_locked(now);
}

void PlacedRequest::unseen() {
  std::lock_guard lock(scheduler_.mutex_);
  if (stage_ == Stage::placed) scheduler_.scheduler_.unseen(ticket_);
}

void PlacedRequest::output(std::uint32_t events, Duration gap, Instant now) {
  std::lock_guard lock(scheduler_.mutex_);
  if (stage_ != Stage::placed) return;
  const double tokens = scheduler_.tokens_per_event_;
  const auto token_gap = std::chrono::duration_cast<Duration>(gap / tokens);
  scheduler_.scheduler_.token(ticket_, static_cast<std::uint32_t>(events * tokens), token_gap,
                              scheduler_.in_order(now));
}

void PlacedRequest::finished(Scheduler::Outcome outcome, std::uint32_t events, Instant now) {
  std::lock_guard lock(scheduler_.mutex_);
  if (stage_ != Stage::placed) return;
  stage_ = Stage::ended;
  double& tokens_per_event = scheduler_.tokens_per_event_;
  if (events >= PoolScheduler::min_learned_events && outcome.output_tokens) {
    const double tokens = static_cast<double>(*outcome.output_tokens) / events;
    tokens_per_event += 0.05 * (std::clamp(tokens, 1.0, 100.0) - tokens_per_event);
  } else if (events > 0 && !outcome.output_tokens) {
    outcome.output_tokens = static_cast<std::uint64_t>(events * tokens_per_event);
  }
  now = scheduler_.in_order(now);
  scheduler_.scheduler_.finished(ticket_, outcome, now);
  if (decision_ == nullptr) return;
  decision_->fate = Decision::Fate::finished;
  decision_->cached = outcome.cached_tokens;
  decision_->output = outcome.output_tokens;
  decision_->took = now - placed_at_;
}

void PlacedRequest::released(Decision::Fate unfinished) noexcept {
  // All has been told, and no request waits for the slot: after most responses.
  if (stage_ == Stage::ended && decision_ == nullptr && !scheduler_.has_waiting()) return;
  std::lock_guard lock(scheduler_.mutex_);
  const Instant now = scheduler_.in_order(Clock::now());
  if (stage_ == Stage::placed) {
    scheduler_.scheduler_.abandoned(ticket_, now);
    if (decision_ != nullptr) {
      decision_->fate = unfinished;
      decision_->took = now - placed_at_;
    }
  }
  stage_ = Stage::ended;
  scheduler_.end_record(*this);
  try {
    scheduler_.pass_locked(now);
  } catch (const std::bad_alloc&) {  // NOLINT(bugprone-empty-catch)
    // The next pass is due in some 20 ms.
  }
}

// ---- PlacementWait ----------------------------------------------------------------------------

PlacementWait::~PlacementWait() {
  request_->signal_ = nullptr;
  if (ended_) return;
  PoolScheduler& scheduler = request_->scheduler_;
  using Stage = PlacedRequest::Stage;
  const bool moved = moved_ != nullptr && *moved_;
  bool is_unused = false;
  {
    std::lock_guard lock(scheduler.mutex_);
    if (!moved) ++scheduler.queue_.abandoned_total;
    if (request_->stage_ == Stage::waiting) {
      scheduler.scheduler_.abandoned(request_->ticket_, scheduler.last_time_);
      scheduler.end_wait(*request_, moved ? Stage::moved : Stage::ended);
    } else if (request_->stage_ == Stage::placed) {
      is_unused = true;
    }
  }
  if (!is_unused) return;
  request_->backend_->release();
  request_->released(moved ? Decision::Fate::moved : Decision::Fate::left);
}

bool PlacementWait::waits() const {
  std::lock_guard lock(request_->scheduler_.mutex_);
  return request_->stage_ == PlacedRequest::Stage::waiting;
}

PlacementWait::End PlacementWait::end(Instant now) {
  ended_ = true;
  request_->signal_ = nullptr;
  PoolScheduler& scheduler = request_->scheduler_;
  std::lock_guard lock(scheduler.mutex_);
  using Stage = PlacedRequest::Stage;
  switch (request_->stage_) {
    case Stage::placed:
      ++scheduler.queue_.waited_total;
      scheduler.queue_.waited_sum += waited();
      return End::placed;
    case Stage::refused: return End::refused;
    case Stage::displaced: return End::displaced;
    case Stage::waiting:
      ++scheduler.queue_.timeout_total;
      scheduler.scheduler_.abandoned(request_->ticket_, scheduler.in_order(now));
      scheduler.end_wait(*request_, Stage::ended);
      return End::expired;
    case Stage::moved:
    case Stage::ended: break;
  }
  return End::expired;
}

}  // namespace evenkeel
