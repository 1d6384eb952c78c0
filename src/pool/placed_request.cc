#include "evenkeel/pool/placed_request.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "pool/pool_scheduler.h"

namespace evenkeel {

PlacedRequest::PlacedRequest(std::shared_ptr<const ScheduledPool> pool)
    : pool_(std::move(pool)), scheduler_(pool_->scheduler()) {}

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
  decision_->state = Decision::State::finished;
  decision_->cached = outcome.cached_tokens;
  decision_->output = outcome.output_tokens;
  decision_->took = now - placed_at_;
}

void PlacedRequest::released(Decision::State unfinished) {
  // All has been told, and no request waits for the slot: after most responses.
  if (stage_ == Stage::ended && decision_ == nullptr && !scheduler_.admission_->has_scheduled())
    return;
  std::lock_guard lock(scheduler_.mutex_);
  const Instant now = scheduler_.in_order(Clock::now());
  if (stage_ == Stage::placed) {
    scheduler_.scheduler_.abandoned(ticket_, now);
    if (decision_ != nullptr) {
      decision_->state = unfinished;
      decision_->took = now - placed_at_;
    }
  }
  stage_ = Stage::ended;
  scheduler_.end_record(*this);
  scheduler_.pass_locked(now);
}

}  // namespace evenkeel
