// What the attempts of one request share, and what follows each.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "evenkeel/base/rng.h"
#include "evenkeel/pool/retry_budget.h"
#include "proxy/attempt.h"
#include "proxy/credentials.h"

namespace evenkeel {

/// Decides after each attempt of a request whether another one follows: after failures that cannot
/// have reached a backend, and beyond that as far as the policy and the pool's budget allow. Holds
/// the answer or the failure that the client gets if no backend takes the request.
class RetryLoop {
 public:
  /// `hint` gets the backends that have been tried. What is passed outlives this object.
  RetryLoop(const AttemptContext& context, const RetryPolicy& policy, Hint& hint, Request& request);
  RetryLoop(const RetryLoop&) = delete;
  RetryLoop& operator=(const RetryLoop&) = delete;
  ~RetryLoop() {
    if (paid_) context_.pool.retry_budget().refund();
  }

  /// When the request no longer waits for a backend: `never` unless it has something to return.
  Instant deadline() const;
  /// True if the next attempt at another backend is to wait first.
  bool waits() const { return waits_; }
  Task<void> back_off(Rng& rng);
  /// Counts the time of the failed attempt as a retry's, when another one begins, or a wait for
  /// one. That of the last attempt remains the backend's.
  void count_retry_time() const;

  /// The next attempt, with the credentials that the backend gets.
  Attempt begin(Lease& lease, const BackendAccess& access);
  /// A fresh link the second time, if the first one had ended.
  LinkPool::LinkChoice link_choice() const {
    return next_ == NextAttempt::same_backend ? LinkPool::LinkChoice::fresh
                                              : LinkPool::LinkChoice::any;
  }
  void on_sent();
  /// True if `attempt_timeout` applies: another attempt may follow this one.
  bool has_time_limit(const Attempt& attempt) const;
  Task<void> limit_time(const Attempt& attempt, Task<Result<Response>>& sending);

  /// True if the attempt's answer is no refusal: the client gets it.
  bool accepts(const AttemptResult& result) const;
  /// Decides on an answer that may be a refusal. True: it is held, and `response` is empty.
  Task<bool> replaces(const Attempt& attempt, Response& response);
  /// Decides on an attempt without an answer, and has it recorded.
  void fail(Attempt& attempt, Error error);
  /// True if another attempt follows a failure or a refusal.
  bool goes_on(const Attempt& attempt);
  /// True if the next attempt is at the same backend, for which the request keeps its slot.
  bool keeps_backend() const { return next_ == NextAttempt::same_backend; }

  /// Restores the request for the client's answer: no further attempt is made.
  void finish();
  /// The held answer or failure, as if no attempt had followed it. REQUIRES: holds_result().
  Result<Response> give_up();
  bool holds_result() const { return held_ != nullptr; }

 private:
  /// What the client gets if no further attempt is made.
  struct Held {
    Result<Response> result;
    RequestTimings timings;
    std::string_view backend;
  };

  void keep_body();
  Instant last_begin() const;
  bool rewind() const { return request_.body == nullptr || request_.body->rewind(); }
  bool may_retry(const Backend& backend) const;
  bool spend_budget();
  NextAttempt next_after(const Error& error, const Attempt& attempt);
  void hold(Result<Response> result);
  bool outweighs(const Held& earlier, const Error& later) const;

  const AttemptContext context_;
  const RetryPolicy& policy_;
  Hint& hint_;
  Request& request_;
  Credentials credentials_;
  NextAttempt next_ = NextAttempt::none;
  bool resent_ = false;  // at most once: a request that breaks its link must not break many
  bool paid_ = false;    // for a retry that has not been sent
  bool waits_ = false;
  std::uint32_t sent_ = 0;  // attempts after which a backend may have begun, the current included
  Instant first_sent_{};    // when the first attempt was sent
  std::unique_ptr<Held> held_;
  std::optional<Fault> last_fault_;  // why another attempt is made
  Instant failed_at_{};
};

}  // namespace evenkeel
