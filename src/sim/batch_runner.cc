#include "sim/batch_runner.h"

#include <algorithm>
#include <chrono>

namespace evenkeel {
namespace {

BatchingSpec at_speed(BatchingSpec spec, double speed) {
  const std::chrono::duration<double, Duration::period> delay(spec.max_queue_delay);
  spec.max_queue_delay = std::chrono::duration_cast<Duration>(delay / speed);
  return spec;
}

}  // namespace

BatchedRequest::BatchedRequest(BatchRunner& runner, std::uint32_t size)
    : QueuedRequest{.items = size}, runner_(runner), progress_(runner.loop_) {
  runner_.submit(*this);
}

BatchedRequest::~BatchedRequest() { runner_.cancel(*this); }

BatchRunner::BatchRunner(Loop& loop, const BatchingSpec& spec, double speed,
                         ServerStatistics& statistics)
    : loop_(loop),
      batcher_(at_speed(spec, speed)),
      speed_(speed),
      instances_(std::max(spec.instances, 1u)),
      statistics_(statistics),
      utilization_(loop.now()),
      timer_(loop, *this) {}

void BatchRunner::submit(BatchedRequest& request) {
  if (batcher_.full() && !timer_.frozen()) advance();  // an instance may be free by now
  if (batcher_.full()) {
    request.state_ = BatchedRequest::State::rejected;
    ++statistics_.rejected;
    return;
  }
  request.arrived = loop_.read_clock();
  batcher_.add(request);
  // The batch is made after everything that arrives in this turn of the loop.
  timer_.wake_soon();
}

void BatchRunner::cancel(BatchedRequest& request) {
  if (request.state_ == BatchedRequest::State::waiting) batcher_.remove(request);
  if (request.state_ != BatchedRequest::State::running) return;
  for (Batch& batch : running_) {
    std::replace(batch.executions.begin(), batch.executions.end(), &request,
                 static_cast<BatchedRequest*>(nullptr));
  }
}

void BatchRunner::advance() {
  const Instant now = loop_.read_clock();
  for (auto at = running_.begin(); at != running_.end();) {
    if (at->ends > now) {
      ++at;
      continue;
    }
    end(*at);
    at = running_.erase(at);
  }
  Instant next = begin_batches(now);
  for (const Batch& batch : running_) next = std::min(next, batch.ends);
  if (next == never) {
    timer_.disarm();
  } else {
    timer_.arm(next);
  }
}

/// Starts batches on free instances. Returns when the batcher may form the next one by itself.
Instant BatchRunner::begin_batches(Instant now) {
  while (running_.size() < instances_) {
    const auto decision = batcher_.decide(now);
    if (decision.requests == 0) return decision.retry_at;
    if (running_.empty()) busy_since_ = now;
    Batch& batch = running_.emplace_back();
    batch.began = now;
    for (QueuedRequest* queued : batcher_.take(decision.requests)) {
      auto* request = static_cast<BatchedRequest*>(queued);
      request->state_ = BatchedRequest::State::running;
      batch.items += request->items;
      batch.executions.push_back(request);
    }
    const std::chrono::duration<double> length(batcher_.batch_seconds_for(batch.items) *
                                               slow_factor_ / speed_);
    batch.ends = now + std::chrono::duration_cast<Duration>(length);
  }
  return never;
}

void BatchRunner::end(Batch& batch) {
  record_busy(batch.ends);
  ++statistics_.executions;
  statistics_.inferences += batch.items;
  for (BatchedRequest* request : batch.executions) {
    if (request == nullptr) continue;
    ++statistics_.batched_requests;
    statistics_.batch_queue_seconds += seconds_of(batch.began - request->arrived);
    statistics_.batch_compute_seconds += seconds_of(batch.ends - batch.began);
    request->state_ = BatchedRequest::State::finished;
    request->progress_.raise();
  }
}

void BatchRunner::record_busy(Instant until) {
  if (until <= busy_since_) return;  // counted with another instance
  utilization_.busy(busy_since_, until);
  busy_since_ = until;
}

double BatchRunner::busy_seconds() const { return seconds_of(utilization_.total()); }

void BatchRunner::postpone(Duration frozen_for) {
  for (Batch& batch : running_) {
    batch.began += frozen_for;
    batch.ends += frozen_for;
  }
}

}  // namespace evenkeel
