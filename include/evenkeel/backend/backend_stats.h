// What a backend's responses were like: counters and times, for pickers, detectors and operators.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>

#include "evenkeel/backend/peak_ewma.h"
#include "evenkeel/backend/recent_failures.h"
#include "evenkeel/backend/recent_responses.h"
#include "evenkeel/base/clock.h"
#include "evenkeel/base/result.h"

namespace evenkeel {

/// Relaxed atomics. Thread: any.
class BackendStats {
 public:
  BackendStats() = default;
  BackendStats(const BackendStats&) = delete;
  BackendStats& operator=(const BackendStats&) = delete;
  ~BackendStats() { delete recent_.load(std::memory_order_relaxed); }

  // ---- for pickers ----

  /// Moving average of the time to the first byte.
  const PeakEwma& latency() const { return latency_; }
  /// See PeakEwma::restore.
  void restore_latency(double seconds, std::uint32_t samples, Instant last_sample) {
    latency_.restore(seconds, samples, last_sample);
  }
  /// Attempts that failed lately, overload included; see RecentFailures.
  double recent_failures(Instant now) const { return recent_failures_.value(now); }
  /// Discards both: the backend was out of rotation and may have changed.
  void forget_latency() {
    latency_.forget();
    recent_failures_.forget();
  }

  // ---- how responses begin and end ----

  /// A response has begun, `took` after the end of the request: a stream with the first byte of its
  /// body, any other with its head.
  void record_first_byte(Duration took, Instant now) {
    responses_total_.fetch_add(1, std::memory_order_relaxed);
    latency_.record(took, now);
    recent().count_first_byte(took, now);
  }
  /// A response that is no success has begun; `record_failure` or `record_neutral` follows.
  void count_other_answer() { other_answers_.fetch_add(1, std::memory_order_relaxed); }
  /// A response that reports a failure, or none at all. A failure never lowers the average.
  void record_failure(Duration took, Instant now) { latency_.record_failure(took, now); }
  /// A response that says nothing of the backend, such as 404.
  void record_neutral(Instant now) { latency_.record_neutral(now); }
  /// The client left after `took`, before the response began: it would have taken longer.
  void record_no_first_byte(Duration took, Instant now) { latency_.record_at_least(took, now); }

  /// A stream's outputs came in this interval. Returns the time per token.
  Duration record_output_interval(Duration interval, Instant now) {
    const float tokens = tokens_per_output_.load(std::memory_order_relaxed);
    const auto per_token = Duration(
        static_cast<Duration::rep>(static_cast<float>(interval.count()) / std::max(tokens, 1.0F)));
    recent().count_per_token(per_token, now);
    return per_token;
  }
  /// An output of a stream had so many tokens on average, as its engine has counted: more than one
  /// with speculative decoding. 1 until there is a count.
  void learn_tokens_per_output(double tokens) {
    constexpr float gain = 0.1F;
    const float before = tokens_per_output_.load(std::memory_order_relaxed);
    tokens_per_output_.store(before + (static_cast<float>(tokens) - before) * gain,
                             std::memory_order_relaxed);
  }

  /// Counts a response that reached its last byte, `took` after the end of the request.
  void record_served(Duration took, Instant now) {
    served_total_.fetch_add(1, std::memory_order_relaxed);
    served_sum_.fetch_add(took.count(), std::memory_order_relaxed);
    recent().count_total(took, now);
  }
  std::uint64_t served_total() const { return served_total_.load(std::memory_order_relaxed); }
  Duration served_sum() const { return Duration(served_sum_.load(std::memory_order_relaxed)); }

  /// Successful responses that have begun.
  std::uint64_t responses_total() const { return responses_total_.load(std::memory_order_relaxed); }
  /// Responses that have begun, whatever they say, and those that have ended well.
  std::uint64_t answers_total() const {
    return responses_total() + served_total() + other_answers_.load(std::memory_order_relaxed);
  }

  // ---- failures ----

  /// Counts any failure or overload, for the pickers and for operators.
  void count_failure(Instant now) {
    recent_failures_.record(now);
    recent().count_failure(now);
  }
  /// Counts an attempt that failed, for the success rate.
  void count_failed() { failed_total_.fetch_add(1, std::memory_order_relaxed); }
  std::uint64_t failed_total() const { return failed_total_.load(std::memory_order_relaxed); }
  /// Counts a response with a status of 500 or more, or with one of gRPC that stands for it.
  void count_failed_response() { failed_responses_.fetch_add(1, std::memory_order_relaxed); }
  std::uint64_t failed_responses_total() const {
    return failed_responses_.load(std::memory_order_relaxed);
  }
  void count_error(Fault fault) {
    errors_[static_cast<std::size_t>(fault)].fetch_add(1, std::memory_order_relaxed);
  }
  std::uint64_t errors_total(Fault fault) const {
    return errors_[static_cast<std::size_t>(fault)].load(std::memory_order_relaxed);
  }
  /// Faults and failed responses.
  std::uint64_t errors_total() const;

  /// Counts an answer with a status that says that the client is wrong, such as 404.
  void count_client_error(int status);
  /// The status of such answers, and how many there were of it in a row, up to the last answer. A
  /// backend that gives no others is probably not what its pool is for.
  struct ClientErrors {
    int status = 0;
    std::uint32_t in_a_row = 0;
  };
  ClientErrors client_errors() const;

  /// The last minute.
  RecentSummary recent_summary(Instant now) const;

 private:
  /// Made with the first response: most backends of a large pool may never get one.
  RecentResponses& recent() {
    RecentResponses* const made = recent_.load(std::memory_order_acquire);
    return made != nullptr ? *made : make_recent();
  }
  RecentResponses& make_recent() noexcept;

  PeakEwma latency_;
  RecentFailures recent_failures_;
  alignas(64) std::atomic<RecentResponses*> recent_{nullptr};
  std::atomic<std::uint64_t> responses_total_{0};
  std::atomic<std::uint64_t> other_answers_{0};
  std::atomic<std::uint64_t> served_total_{0};
  std::atomic<Duration::rep> served_sum_{0};
  std::atomic<float> tokens_per_output_{1};
  std::atomic<std::uint64_t> failed_total_{0};
  std::atomic<std::uint64_t> failed_responses_{0};
  std::array<std::atomic<std::uint64_t>, fault_count> errors_{};
  std::atomic<std::uint64_t> client_errors_after_{0};  // so many successful responses
  std::atomic<std::uint32_t> client_errors_{0};
  std::atomic<int> client_error_status_{0};
};

}  // namespace evenkeel
