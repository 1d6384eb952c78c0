// When the forwarder makes another attempt after an answer, or after a backend may have begun.
#include <algorithm>
#include <memory>
#include <utility>

#include "evenkeel/base/deadline.h"
#include "evenkeel/filter/replay_body.h"
#include "evenkeel/proxy/forwarder.h"
#include "proxy/attempt_outcome.h"
#include "proxy/attempt_progress.h"
#include "proxy/held_answer.h"

namespace evenkeel {
namespace {

/// How long a request that a backend refused waits for another one; then it gets that answer.
constexpr Duration max_retry_wait = std::chrono::seconds(1);

constexpr int too_many_requests = 429;

Task<Result<Response>> attempt_timed_out() {
  return Result<Response>(Error{.fault = Fault::first_byte_timeout,
                                .side = Side::backend,
                                .detail = "no response within retry.attempt_timeout"});
}

}  // namespace

/// Keeps a copy of the body from here on, if it may be small enough and is not kept yet.
void Forwarder::keep_body(Request& request, const Progress& progress) {
  if (request.body->rewindable()) return;
  if (request.info.inference != nullptr && request.info.inference->body_is_held) return;
  const std::uint64_t max_bytes = progress.policy->replay_bytes;
  if (!request.upgrade.empty() || max_bytes == 0 || options_.held_bodies == nullptr) return;
  HeldBodies& held = *options_.held_bodies;
  if (request.body->length().value_or(0) > max_bytes) return held.metrics().overflows.add();
  request.body = std::make_unique<ReplayBody>(
      std::move(request.body),
      ReplayBody::Limits{.body_bytes = max_bytes, .worker_bytes = options_.max_held_bytes}, held,
      request.info.identity);
}

/// The request may be sent once more, and there is another backend for it.
bool Forwarder::may_retry(const Request& request, const Progress& progress,
                          const Backend& backend) const {
  if (progress.sent >= progress.policy->attempts || progress.hint.excluded.full()) return false;
  if (request.body != nullptr && !request.body->rewindable()) return false;
  if (loop_.now() - progress.first_sent >= options_.max_retry_time) return false;
  const auto& backends = pool_.state().backends();
  return std::any_of(backends.begin(), backends.end(), [&](const BackendPtr& each) {
    return each.get() != &backend && each->state().in_rotation() &&
           !progress.hint.excluded.contains(each.get());
  });
}

/// With `engine: auto` the engine of the pool is none, and the backend's may be known.
const Engine& Forwarder::engine_of(const Backend& backend) const {
  const std::uint8_t detected = backend.findings().detected_engine();
  return detected == 0 ? *options_.engine : engine_numbered(detected);
}

/// Once for each retry: a timeout of an attempt has paid already.
bool Forwarder::spend_budget(Progress& progress) {
  if (progress.paid) return true;
  const PoolState& pool = pool_.state();
  if (pool.spec().retry_budget > 0 && progress.paid.take_from(pool.retry_budget())) return true;
  metrics_.budget_exhausted.add();
  return false;
}

/// Decides on an answer that may be a refusal. If the request goes to another backend, `response`
/// no longer needs its link: it holds the answer in case that fails.
Task<Forwarder::Next> Forwarder::replace_answer(Request& request, Progress& progress,
                                                const Backend& backend, Response& response) {
  const RequestTimings& timings = request.info.timings;
  const RetryPolicy& policy = *progress.policy;
  const Instant sent = timings.uploaded != Instant{} ? timings.uploaded : timings.head_sent;
  const ErrorAnswer answer{.status = status_of_answer(request, response),
                           .early = loop_.now() - sent <= RetryPolicy::max_early};
  const bool idempotent = policy.is_idempotent(request);
  // It was the trial of an ejected backend, or its failure has ejected it: others do better.
  const bool blames_backend =
      answer.status >= 500 && idempotent && backend.state().is_out(OutOfRotation::ejected);
  const bool again =
      blames_backend || policy.retries(answer, engine_of(backend).refusals, idempotent);
  if (!again || !may_retry(request, progress, backend)) co_return Next::done;
  const bool overloaded = answer.status == too_many_requests || answer.status == 503;
  const auto detached = co_await detach_answer(loop_, response);
  if (!detached || !rewind(request) || !spend_budget(progress)) co_return Next::done;
  AttemptRecord& attempt = request.info.outcome.attempts.back();
  attempt.status = static_cast<std::uint16_t>(answer.status);
  attempt.fault = overloaded ? Fault::overloaded : Fault::server_error;
  progress.waits = true;
  co_return Next::other_backend;
}

/// `attempt_timeout` applies: another attempt may follow this one.
bool Forwarder::has_timeout(const Request& request, const Progress& progress,
                            const Backend& backend) const {
  const RetryPolicy& policy = *progress.policy;
  if (policy.attempt_timeout == Duration{}) return false;
  const Error timeout{.fault = Fault::first_byte_timeout, .side = Side::backend, .detail = {}};
  return policy.retries(timeout, policy.is_idempotent(request)) &&
         may_retry(request, progress, backend);
}

/// Waits for the response. If it takes longer than `attempt_timeout` after the end of the upload,
/// and the request may be sent once more, `sending` fails instead. That retry is paid for here: an
/// attempt goes on that none would follow.
Task<void> Forwarder::limit_attempt(const Request& request, Progress& progress,
                                    const Backend& backend, Task<Result<Response>>& sending) {
  const Duration timeout = progress.policy->attempt_timeout;
  const RequestTimings& timings = request.info.timings;
  Instant limit = loop_.now() + timeout;
  while (true) {
    co_await UntilDoneOrDeadline(sending, loop_, limit);
    if (sending.ready()) co_return;
    const Instant began = timings.uploaded != Instant{} ? timings.uploaded : loop_.now();
    limit = began + timeout;
    if (limit <= loop_.now()) break;
  }
  if (!may_retry(request, progress, backend) || !spend_budget(progress)) co_return;
  sending = attempt_timed_out();
}

/// When a request with an answer or a failure to return no longer waits for another backend.
/// REQUIRES: `held`.
Instant Forwarder::retry_deadline(const Progress& progress) const {
  const Instant last = progress.sent > 0 ? progress.first_sent + options_.max_retry_time : never;
  return progress.held->result ? std::min(loop_.now() + max_retry_wait, last) : last;
}

/// Waits before a retry, at random (full jitter), so that clients that failed together do not come
/// back together. Not if a backend is idle.
Task<void> Forwarder::back_off(Progress& progress) {
  progress.waits = false;
  const auto& backends = pool_.state().backends_for(progress.hint);
  const bool has_idle = std::any_of(backends.begin(), backends.end(), [&](const BackendPtr& each) {
    return each->slots().in_flight() == 0 && each->state().in_rotation() &&
           !each->state().avoided(loop_.now()) && !progress.hint.excluded.contains(each.get());
  });
  if (has_idle) co_return;
  const RetryPolicy& policy = *progress.policy;
  const Duration range =
      std::min(policy.backoff_base * (1 << std::min(progress.sent - 1, 10U)), policy.backoff_max);
  const auto wait =
      std::chrono::duration_cast<Duration>(std::chrono::duration<double, Duration::period>(
          rng_.unit() * static_cast<double>(range.count())));
  const Duration left = progress.first_sent + options_.max_retry_time - loop_.now();
  co_await loop_.sleep_for(std::clamp(wait, Duration{}, std::max(left, Duration{})));
  progress.failed_at = loop_.now();  // the wait belongs to the retry
}

}  // namespace evenkeel
