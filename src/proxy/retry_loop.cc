#include "proxy/retry_loop.h"

#include <algorithm>

#include "evenkeel/base/deadline.h"
#include "evenkeel/filter/replay_body.h"
#include "proxy/attempt_outcome.h"
#include "proxy/held_answer.h"

namespace evenkeel {
namespace {

// One attempt per backend, and one on a fresh link.
static_assert(AttemptList::capacity >= ExcludedBackends::capacity + 2);

/// How long a request that a backend refused waits for another one; then it gets that answer.
constexpr Duration max_retry_wait = std::chrono::seconds(1);

constexpr int too_many_requests = 429;

Task<Result<Response>> attempt_timed_out() {
  return Result<Response>(Error{.fault = Fault::first_byte_timeout,
                                .side = Side::backend,
                                .detail = "no response within retry.attempt_timeout"});
}

}  // namespace

RetryLoop::RetryLoop(const AttemptContext& context, const RetryPolicy& policy, Hint& hint,
                     Request& request)
    : context_(context), policy_(policy), hint_(hint), request_(request) {
  if (request.body != nullptr && request.carrier == nullptr) keep_body();
}

/// Keeps a copy of the body from here on, if it may be small enough and is not kept yet.
void RetryLoop::keep_body() {
  if (request_.body->rewindable()) return;
  if (request_.info.inference != nullptr && request_.info.inference->body_is_held) return;
  const std::uint64_t max_bytes = policy_.replay_bytes;
  const ForwarderOptions& options = context_.options;
  if (!request_.upgrade.empty() || max_bytes == 0 || options.held_bodies == nullptr) return;
  HeldBodies& held = *options.held_bodies;
  if (request_.body->length().value_or(0) > max_bytes) return held.metrics().overflows.add();
  request_.body = std::make_unique<ReplayBody>(
      std::move(request_.body),
      ReplayBody::Limits{.body_bytes = max_bytes, .worker_bytes = options.max_held_bytes}, held,
      request_.info.identity);
}

/// When the last attempt begins at the latest. REQUIRES: one was sent.
Instant RetryLoop::last_begin() const {
  const Duration of_route = request_.info.timings.first_byte_timeout;
  const Duration first_byte =
      of_route != Duration{} ? of_route : context_.pool.config().timeouts.first_byte;
  const bool is_shorter = policy_.within > Duration{} && policy_.within < first_byte;
  return first_sent_ + (is_shorter ? policy_.within : first_byte);
}

Instant RetryLoop::deadline() const {
  if (held_ == nullptr) return never;
  const Instant last = sent_ > 0 ? last_begin() : never;
  return held_->result ? std::min(context_.loop.now() + max_retry_wait, last) : last;
}

/// Waits at random (full jitter), so that clients that failed together do not come back together.
/// Not if a backend is idle.
Task<void> RetryLoop::back_off(Rng& rng) {
  waits_ = false;
  Loop& loop = context_.loop;
  const auto& backends = context_.pool.backend_set().of(hint_.subset);
  const bool has_idle = std::any_of(backends.begin(), backends.end(), [&](const BackendPtr& each) {
    return each->slots().in_flight() == 0 && each->state().in_rotation() &&
           !each->state().avoided(loop.now()) && !hint_.excluded.contains(each.get());
  });
  if (has_idle) co_return;
  const Duration range =
      std::min(policy_.backoff_base * (1 << std::min(sent_ - 1, 10U)), policy_.backoff_max);
  const auto wait =
      std::chrono::duration_cast<Duration>(std::chrono::duration<double, Duration::period>(
          rng.unit() * static_cast<double>(range.count())));
  const Duration left = last_begin() - loop.now();
  co_await loop.sleep_for(std::clamp(wait, Duration{}, std::max(left, Duration{})));
  failed_at_ = loop.now();  // the wait belongs to the retry
}

void RetryLoop::count_retry_time() const {
  RequestTimings& timings = request_.info.timings;
  if (!last_fault_ || timings.head_sent == Instant{}) return;
  timings.retried += std::max(failed_at_ - timings.head_sent, Duration{});
  timings.head_sent = timings.uploaded = timings.first_byte = {};
}

Attempt RetryLoop::begin(Lease& lease, const BackendAccess& access) {
  if (last_fault_) [[unlikely]] {
    context_.metrics.retries.count(*last_fault_);
    count_retry_time();
  }
  credentials_.apply_to(request_, access.key, access.is_hosted);
  return Attempt(context_, request_, lease, access);
}

void RetryLoop::on_sent() {
  paid_ = false;
  if (sent_++ == 0) first_sent_ = request_.info.timings.head_sent;
}

/// True if the request may be sent once more, and there is another backend for it.
bool RetryLoop::may_retry(const Backend& backend) const {
  if (request_.carrier != nullptr) return false;
  if (sent_ >= policy_.attempts || hint_.excluded.full()) return false;
  if (request_.body != nullptr && !request_.body->rewindable()) return false;
  if (context_.loop.now() >= last_begin()) return false;
  const auto& backends = context_.pool.backends();
  return std::any_of(backends.begin(), backends.end(), [&](const BackendPtr& each) {
    return each.get() != &backend && each->state().in_rotation() &&
           !hint_.excluded.contains(each.get());
  });
}

/// Pays once for each retry: a timeout of an attempt has paid already.
bool RetryLoop::spend_budget() {
  if (paid_) return true;
  const PoolState& pool = context_.pool;
  paid_ = pool.config().retry.budget > 0 && pool.retry_budget().withdraw();
  if (!paid_) context_.metrics.budget_exhausted.add();
  return paid_;
}

bool RetryLoop::has_time_limit(const Attempt& attempt) const {
  if (policy_.attempt_timeout == Duration{}) return false;
  const Error timeout{.fault = Fault::first_byte_timeout, .side = Side::backend, .detail = {}};
  return policy_.retries(timeout, policy_.is_idempotent(request_)) && may_retry(attempt.backend());
}

/// Waits for the response. If it takes longer than `attempt_timeout` after the end of the upload,
/// and the request may be sent once more, `sending` fails instead. That retry is paid for here: an
/// attempt goes on that none would follow.
Task<void> RetryLoop::limit_time(const Attempt& attempt, Task<Result<Response>>& sending) {
  Loop& loop = context_.loop;
  const RequestTimings& timings = request_.info.timings;
  Instant limit = loop.now() + policy_.attempt_timeout;
  while (true) {
    co_await UntilDoneOrDeadline(sending, loop, limit);
    if (sending.ready()) co_return;
    const Instant began = timings.uploaded != Instant{} ? timings.uploaded : loop.now();
    limit = began + policy_.attempt_timeout;
    if (limit <= loop.now()) break;
  }
  if (!may_retry(attempt.backend()) || !spend_budget()) co_return;
  sending = attempt_timed_out();
}

bool RetryLoop::accepts(const AttemptResult& result) const {
  if (counts_against_backend(result.outcome)) [[unlikely]]
    return false;
  context_.pool.retry_budget().deposit(context_.pool.config().retry.budget);
  return true;
}

Task<bool> RetryLoop::replaces(const Attempt& attempt, Response& response) {
  const RequestTimings& timings = request_.info.timings;
  const Backend& backend = attempt.backend();
  const Instant sent = timings.uploaded != Instant{} ? timings.uploaded : timings.head_sent;
  const ErrorAnswer answer{.status = status_of_answer(request_, response),
                           .early = context_.loop.now() - sent <= RetryPolicy::max_early};
  const bool idempotent = policy_.is_idempotent(request_);
  // It was the trial of an ejected backend, or its failure has ejected it: others do better.
  const bool blames_backend =
      answer.status >= 500 && idempotent && backend.state().is_out(OutOfRotation::ejected);
  const bool again =
      blames_backend || policy_.retries(answer, context_.engine_of(backend).refusals, idempotent);
  if (!again || !may_retry(backend)) co_return false;
  const auto detached = co_await detach_answer(context_.loop, response);
  if (!detached || !rewind() || !spend_budget()) co_return false;
  const bool overloaded = answer.status == too_many_requests || answer.status == 503;
  AttemptRecord& record = request_.info.outcome.attempts.back();
  record.status = static_cast<std::uint16_t>(answer.status);
  record.fault = overloaded ? Fault::overloaded : Fault::server_error;
  record.ended = context_.loop.now();
  waits_ = true;
  next_ = NextAttempt::other_backend;
  hold(std::move(response));
  co_return true;
}

void RetryLoop::fail(Attempt& attempt, Error error) {
  next_ = attempt.is_sent() ? next_after(error, attempt) : NextAttempt::other_backend;
  attempt.fail(error, next_);
  hold(std::move(error));
}

/// A backend that has ended the link gets the request again, over a fresh link, once. If it says
/// itself that it has not processed the request, another one may get it. Beyond that, the policy
/// decides.
NextAttempt RetryLoop::next_after(const Error& error, const Attempt& attempt) {
  if (may_resend(error, request_)) {
    const bool same = (error.idle_close_race || attempt.link_ended()) && !resent_;
    if (same || error.not_processed) --sent_;
    resent_ = resent_ || same;
    if (same) return NextAttempt::same_backend;
    if (error.not_processed) return NextAttempt::other_backend;
  }
  const bool again = policy_.retries(error, policy_.is_idempotent(request_)) &&
                     may_retry(attempt.backend()) && rewind() && spend_budget();
  if (!again) return NextAttempt::none;
  waits_ = true;
  return NextAttempt::other_backend;
}

bool RetryLoop::goes_on(const Attempt& attempt) {
  if (next_ != NextAttempt::other_backend) return next_ == NextAttempt::same_backend;
  const bool is_late =
      policy_.within > Duration{} && sent_ > 0 && context_.loop.now() >= last_begin();
  if (is_late || hint_.excluded.full()) return false;
  hint_.excluded.add(&attempt.backend());
  return true;
}

/// Keeps the end of the current attempt. REQUIRES: `next_` is set.
void RetryLoop::hold(Result<Response> result) {
  const RequestInfo& info = request_.info;
  failed_at_ = context_.loop.now();
  last_fault_ = info.outcome.attempts.back().fault.value_or(Fault::internal);
  if (held_ && !result && next_ != NextAttempt::none && outweighs(*held_, result.error())) return;
  held_ = std::make_unique<Held>(Held{std::move(result), info.timings, info.outcome.backend});
}

/// True if the earlier result says more: a backend's answer, or the failure of one that may have
/// begun. The request is not unprocessed because the next backend has not seen it.
bool RetryLoop::outweighs(const Held& earlier, const Error& later) const {
  return earlier.result || (sent_ > 0 && later.not_processed);
}

void RetryLoop::finish() {
  credentials_.restore(request_);
  if (request_.body != nullptr) request_.body->commit(request_.info.timings.uploaded != Instant{});
}

Result<Response> RetryLoop::give_up() {
  credentials_.restore(request_);
  request_.info.timings = held_->timings;
  request_.info.outcome.backend = held_->backend;
  return std::move(held_->result);
}

}  // namespace evenkeel
