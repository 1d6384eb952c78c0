// The state of one backend that all workers share: slots taken, errors, back-off, latencies.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <optional>
#include <string>

#include "evenkeel/balance/outcome.h"
#include "evenkeel/balance/peak_ewma.h"
#include "evenkeel/balance/recent_failures.h"
#include "evenkeel/balance/recent_responses.h"
#include "evenkeel/balance/signals.h"
#include "evenkeel/base/clock.h"
#include "evenkeel/base/result.h"
#include "evenkeel/base/shared_count.h"

namespace evenkeel {

/// Why a backend gets no new requests. Several reasons may hold at a time.
enum class OutOfRotation : std::uint8_t {
  starting,    ///< not checked yet, or it reports that it is loading
  unhealthy,   ///< its health checks fail
  draining,    ///< an operator drains it
  standby,     ///< a standby backend that its pool does not need
  unresolved,  ///< its host name has no address
  ejected,     ///< its requests fail
  sleeping,    ///< its engine sleeps: it holds all requests until it is woken
};

/// Who says that an engine sleeps.
enum class SleepSource : std::uint8_t { page, check };

/// Why a backend is ejected.
enum class EjectionReason : std::uint8_t {
  consecutive,   ///< failures in a row
  success_rate,  ///< far fewer of its requests succeed than of the other backends'
};

inline constexpr int ejection_reason_count = static_cast<int>(EjectionReason::success_rate) + 1;

/// The stable word of a reason, such as "success_rate".
const char* to_string(EjectionReason reason);

/// Where a backend is between its ejection and the success that ends it.
enum class Ejection : std::uint8_t {
  none,
  ejected,    ///< out of rotation
  half_open,  ///< the next request is its trial, and no other follows before its outcome
  probed,     ///< a probe has succeeded: back in rotation, but its next failure ejects it again
  ignored,    ///< in rotation because its pool panics
};

/// What a backend may take longer for than the others of its pool.
enum class SlowPart : std::uint8_t {
  per_token,    ///< between two tokens of a stream
  first_token,  ///< from the end of a request to the beginning of its response
  response,     ///< to its last byte; of pools without streams
};

inline constexpr int slow_part_count = static_cast<int>(SlowPart::response) + 1;

/// The stable word of a part, such as "per_token".
const char* to_string(SlowPart part);

/// By how much a backend is slower than its pool.
struct Slowness {
  float ratio = 0;  ///< its median to that of the others; 0: it is not slow
  SlowPart part = SlowPart::per_token;
};

/// Counters of one backend: atomics, relaxed except where a comment gives a reason. Survives
/// reloads.
///
/// Thread: any.
class Load {
 public:
  Load() = default;
  Load(const Load&) = delete;
  Load& operator=(const Load&) = delete;
  ~Load() { delete recent_.load(std::memory_order_relaxed); }

  /// How long a backend that cannot be connected gets no requests: doubled with each failure.
  static constexpr Duration initial_backoff = std::chrono::seconds(1);
  static constexpr Duration max_backoff = std::chrono::seconds(10);
  /// How long a backend gets no requests after its first failure: doubled with each in a row, up to
  /// `max_backoff`.
  static constexpr Duration initial_failure_backoff = std::chrono::milliseconds(50);
  /// How long an overloaded backend that does not say when to come back gets no requests, and the
  /// longest time that is believed.
  static constexpr Duration initial_park = std::chrono::seconds(1);
  static constexpr Duration max_park = std::chrono::seconds(30);

  // ---- Slots: requests in flight, counted over all workers ----

  std::uint32_t in_flight() const { return live_.in_flight.load(std::memory_order_relaxed); }

  /// There is a free slot; `limit` 0 is no limit.
  /// Sequentially consistent, as are `release` and the queue's counter: when a request begins to
  /// wait while a slot becomes free, at least one of the two sees the other.
  bool has_room(std::uint32_t limit) const {
    return limit == 0 || live_.in_flight.load(std::memory_order_seq_cst) < limit;
  }

  /// Takes a slot if there is one. The count never exceeds the limit, not even for a moment: an
  /// excess that is undone later could hide a free slot from a request that then waits for ever.
  bool try_acquire(std::uint32_t limit) {
    if (limit == 0) {
      live_.in_flight.fetch_add(1, std::memory_order_relaxed);
      return true;
    }
    std::uint32_t seen = live_.in_flight.load(std::memory_order_relaxed);
    while (seen < limit) {
      if (live_.in_flight.compare_exchange_weak(seen, seen + 1, std::memory_order_relaxed)) {
        return true;
      }
    }
    return false;
  }

  /// Number of slots in the active configuration; 0: no limit.
  std::uint32_t limit() const { return live_.limit.load(std::memory_order_relaxed); }
  void set_limit(std::uint32_t limit) { live_.limit.store(limit, std::memory_order_seq_cst); }

  /// Its limit is the share that SlowStart gives it for now. Thread: the control thread.
  bool ramps() const { return ramps_; }
  void set_ramps(bool ramps) { ramps_ = ramps; }

  void release() { live_.in_flight.fetch_sub(1, std::memory_order_seq_cst); }

  std::uint64_t picks_total() const { return live_.picks_total.load(std::memory_order_relaxed); }
  void count_pick() { live_.picks_total.fetch_add(1, std::memory_order_relaxed); }

  /// Of the parts of its pool's queue whose requests it may serve: see SubsetQueue. Marks are
  /// never taken away.
  std::uint64_t queue_marks() const { return queue_marks_.load(std::memory_order_relaxed); }
  void add_queue_mark(std::uint64_t mark) {
    queue_marks_.fetch_or(mark, std::memory_order_relaxed);
  }

  // ---- Rotation: reasons to give it no requests; the control thread sets and clears them ----

  /// No reason holds. A backend that is out of rotation is never picked.
  bool in_rotation() const { return live_.out_reasons.load(std::memory_order_relaxed) == 0; }
  bool is_out(OutOfRotation reason) const {
    return (live_.out_reasons.load(std::memory_order_relaxed) & bit(reason)) != 0;
  }
  /// The bits of the reasons other than these; 0: none holds.
  template <class... Reasons>
  std::uint32_t other_reasons(Reasons... reasons) const {
    return live_.out_reasons.load(std::memory_order_relaxed) & ~(bit(reasons) | ...);
  }
  void take_out(OutOfRotation reason) {
    live_.out_reasons.fetch_or(bit(reason), std::memory_order_relaxed);
  }
  /// True if this was the last reason. Call Backend::put_back instead, which serves the queue too.
  bool clear(OutOfRotation reason) {
    return live_.out_reasons.fetch_and(~bit(reason), std::memory_order_seq_cst) == bit(reason);
  }

  /// Notes what a source says of its engine's sleep. True: one of them says that it sleeps.
  /// Thread: the control thread.
  bool note_sleep(SleepSource source, bool sleeps) {
    const auto own = static_cast<std::uint8_t>(1u << static_cast<unsigned>(source));
    sleep_sources_ =
        static_cast<std::uint8_t>(sleeps ? sleep_sources_ | own : sleep_sources_ & ~own);
    return sleep_sources_ != 0;
  }

  /// The last sample polled from its engine and GPUs.
  Signals& signals() { return signals_; }
  const Signals& signals() const { return signals_; }
  /// How often its engine has restarted since this process knows it. Its prefix cache is empty
  /// then, and whenever `signals().engine().cache_clears()` changes.
  std::uint64_t engine_restarts() const { return signals_.engine().restarts(); }

  // ---- Back-off: a backend whose attempts fail is avoided while another is available ----

  /// The back-off lasts at this time.
  bool in_backoff(Instant now) const {
    const Duration::rep until = live_.backoff_until.load(std::memory_order_relaxed);
    return until != 0 && now.time_since_epoch().count() < until;
  }
  /// Its last attempts failed: in back-off, or the next request is its trial.
  bool needs_trial() const { return live_.backoff_until.load(std::memory_order_relaxed) != 0; }
  /// A connection attempt failed: starts a back-off of 1, 2, 4, 8, then 10 s. Does nothing during
  /// one: a hundred connection attempts that fail together are one failure.
  void back_off(Instant now);
  /// A request begins on a backend that needs a trial: the back-off starts again, so that no other
  /// request follows until its outcome is known. On a parked backend another one may follow after
  /// 1 s: see takes_overflow.
  void begin_trial(Instant now);
  /// The trial of an ejected backend has not failed so far: the next request is another one, at
  /// once. False: this is no such trial.
  bool end_trial(Instant now);
  /// A connection succeeded: clears a back-off for failed connections, and their history. True if
  /// the backend is in back-off no more.
  bool recover();
  /// A request that was sent at `sent` has an answer: ends a back-off for connections that failed
  /// before. Over a kept connection that is no sign of a restart, so outcomes are not forgotten.
  /// True if the backend is in back-off no more.
  bool end_connect_failures(Instant sent, Instant now);
  /// Its last connection attempt failed, and the back-off for that lasts.
  bool unreachable(Instant now) const { return has_connect_failures() && in_backoff(now); }
  bool has_connect_failures() const { return connect_failures() != 0; }
  /// Why the last connection attempt failed. REQUIRES: has_connect_failures().
  Fault connect_fault() const { return connect_fault_.load(std::memory_order_relaxed); }
  void set_connect_fault(Fault fault) { connect_fault_.store(fault, std::memory_order_relaxed); }
  std::uint32_t connect_failures() const {
    return live_.connect_failures.load(std::memory_order_relaxed);
  }

  // ---- Outcomes of attempts over an established connection ----

  /// Records any failure or overload for the pickers (failure_penalty) and for operators.
  void count_failure(Instant now) {
    live_.recent_failures.record(now);
    recent().count_failure(now);
  }
  /// It failed: avoided for 50, 100, 200 ms and so on up to 10 s while another is available, so
  /// that answering at once with an error does not look like a low load.
  void record_failed(const AttemptResult& result, Instant now);
  /// It is overloaded: parked, that is avoided, for as long as it says (at most 30 s), or for 1 s,
  /// which doubles with each park until a success.
  void record_overloaded(const AttemptResult& result, Instant now);
  /// It answered. Ends the back-off for failures, and that of a park that is over (`end_park` ends
  /// one that lasts). True if the backend is in back-off no more. One load while there is none. The
  /// success of a request with a safe method does not clear recent failures of others, as of a
  /// server that lists its models and generates nothing: then the next request is the trial.
  bool record_success(bool safe_method, Instant now) {
    return needs_trial() && end_failures(safe_method, now);
  }

  /// Failed attempts since its last success.
  std::uint32_t failures_in_a_row() const {
    return failures_.in_a_row.load(std::memory_order_relaxed);
  }
  /// Failed attempts in all.
  std::uint64_t failures_total() const { return failures_.total.load(std::memory_order_relaxed); }
  /// The last failure. Of threads that write at the same time, one may be read mixed with another.
  AttemptResult last_failure() const;
  /// Parked: it said that it is overloaded.
  bool parked(Instant now) const {
    return now.time_since_epoch().count() < failures_.parked_until.load(std::memory_order_relaxed);
  }
  /// Parked by a 429, and may get one request that would otherwise queue or be refused: it may have
  /// refused one client only. The first at once; after 1, 2, 4 s and so on, up to 30 s, if it
  /// refuses these too. Refusals of requests that were on their way before the last one do not
  /// count.
  bool takes_overflow(Instant now) const {
    return needs_trial() && parked(now) && has_no_failures() &&
           now.time_since_epoch().count() >= overflow_.from.load(std::memory_order_relaxed);
  }
  /// Parked by a 429, and may get one request although others have free slots, to see whether it
  /// accepts it: as takes_overflow, but not within 1 s of its last refusal. The answer to a request
  /// with a safe method would not end a park that one with another method has begun.
  bool takes_trial(bool safe_method, Instant now) const {
    return takes_overflow(now) &&
           now.time_since_epoch() -
                   Duration(overflow_.last_refusal.load(std::memory_order_relaxed)) >=
               initial_park &&
           !(safe_method && overflow_.refused_unsafe.load(std::memory_order_relaxed));
  }
  /// It began to answer, without an error, a request sent at `sent`: if that was after its last
  /// refusal, it is parked no longer. The answer to a safe method ends no park that a request with
  /// another method has begun, and none ends the time that a 503 has asked for. True if the backend
  /// is in back-off no more.
  bool end_park(bool safe_method, Instant sent, Instant now);

  // ---- Ejection: OutlierDetector decides ----

  Ejection ejection() const { return failures_.ejection.load(std::memory_order_relaxed); }
  EjectionReason ejection_reason() const {
    return failures_.ejection_reason.load(std::memory_order_relaxed);
  }
  /// When an ejected backend may be tried again.
  Instant ejected_until() const {
    return Instant(Duration(failures_.ejected_until.load(std::memory_order_relaxed)));
  }
  Duration ejected_for() const {
    return Duration(failures_.ejected_for.load(std::memory_order_relaxed));
  }
  std::uint64_t ejections_total(EjectionReason reason) const {
    return failures_.ejections[static_cast<std::size_t>(reason)].load(std::memory_order_relaxed);
  }
  /// Failures in a row when it was ejected.
  std::uint32_t ejected_after() const {
    return failures_.ejected_after.load(std::memory_order_relaxed);
  }
  /// Takes it out of rotation. `took`: until it may be tried again.
  void eject(EjectionReason reason, Duration took, Instant now);
  /// Sets another state than `ejected`; Backend::put_back follows.
  void set_ejection(Ejection ejection, Instant now);
  /// It returns as another process, or to a pool that ejects nothing.
  void forget_failures();
  /// Its health checker sends it requests of its own while it is ejected. Thread: the control
  /// thread.
  bool is_probed() const { return failures_.is_probed.load(std::memory_order_relaxed); }
  void set_probed(bool probed) { failures_.is_probed.store(probed, std::memory_order_relaxed); }

  // ---- Silence: SilenceDetector decides ----

  /// It answers nothing while others of its pool do: avoided, but for trials at growing intervals.
  bool silent() const { return failures_.silence.load(std::memory_order_relaxed) != 0; }
  /// `wait`: until the first trial; doubled with each, up to 30 s.
  void begin_silence(Duration wait, Instant now);
  /// It has answered. True if the backend is in back-off no more.
  bool end_silence();
  /// Responses that have begun, whatever they say, and those that have ended well.
  std::uint64_t answers_total() const {
    return responses_total() + served_total() + other_answers_.load(std::memory_order_relaxed);
  }

  /// The requests in flight for which it waits: their clients have not sent their bodies yet. Only
  /// counted in pools that notice silence.
  SharedCount& awaiting_clients() { return awaiting_clients_; }
  /// The other requests in flight: it may have to answer them, or does not read their bodies.
  std::uint32_t in_its_hands() const {
    const std::uint32_t waiting = awaiting_clients_.value();
    const std::uint32_t all = in_flight();
    return all > waiting ? all - waiting : 0;
  }

  // ---- How its responses begin and end ----

  /// Moving average of the time to the first byte, for the pickers.
  const PeakEwma& latency() const { return live_.latency; }
  /// As PeakEwma::restore.
  void restore_latency(double seconds, std::uint32_t samples, Instant last_sample) {
    live_.latency.restore(seconds, samples, last_sample);
  }
  /// Requests that failed lately and that pickers count as if they were in flight. 0 on a backend
  /// that needs a trial: its back-off keeps requests away, and the trials decide on its ejection.
  double failure_penalty(Instant now) const {
    return needs_trial() ? 0 : live_.recent_failures.value(now);
  }
  /// Discards both: the backend was out of rotation and may have changed.
  void forget_latency() {
    live_.latency.forget();
    live_.recent_failures.forget();
  }

  /// A response has begun, `took` after the end of the request: a stream with the first byte of its
  /// body, any other with its head.
  void record_first_byte(Duration took, Instant now) {
    responses_total_.fetch_add(1, std::memory_order_relaxed);
    live_.latency.record(took, now);
    recent().count_first_byte(took, now);
  }
  /// A response that is no success has begun; `record_failure` or `record_neutral` follows.
  void count_other_answer() { other_answers_.fetch_add(1, std::memory_order_relaxed); }
  /// A response that reports a failure, or none at all. A failure never lowers the average.
  void record_failure(Duration took, Instant now) { live_.latency.record_failure(took, now); }
  /// A response that says nothing of the backend, such as 404.
  void record_neutral(Instant now) { live_.latency.record_neutral(now); }

  /// The client left after `took`, before the response began: it would have taken longer.
  void record_no_first_byte(Duration took, Instant now) {
    live_.latency.record_at_least(took, now);
  }

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

  /// SlownessDetector decides.
  Slowness slowness() const { return slowness_.load(std::memory_order_relaxed); }
  void set_slowness(Slowness slowness) { slowness_.store(slowness, std::memory_order_relaxed); }
  /// Its picks of late, over an equal share of those of its pool; below 0: not known.
  float pick_share() const { return pick_share_.load(std::memory_order_relaxed); }
  void set_pick_share(float share) { pick_share_.store(share, std::memory_order_relaxed); }

  /// Counts a response that reached its last byte, `took` after the end of the request.
  void record_served(Duration took, Instant now) {
    served_total_.fetch_add(1, std::memory_order_relaxed);
    served_sum_.fetch_add(took.count(), std::memory_order_relaxed);
    recent().count_total(took, now);
  }
  std::uint64_t served_total() const { return served_total_.load(std::memory_order_relaxed); }
  Duration served_sum() const { return Duration(served_sum_.load(std::memory_order_relaxed)); }

  /// The weight that `weights: observed` has learned; 0: none yet. The control thread writes it.
  float learned_weight() const { return learned_weight_.load(std::memory_order_relaxed); }
  void set_learned_weight(float weight) {
    learned_weight_.store(weight, std::memory_order_relaxed);
  }

  /// The engine that `engine: auto` has detected, as the table of engines numbers it (number_of);
  /// 0: none that is known. The control thread writes it.
  std::uint8_t detected_engine() const { return detected_engine_.load(std::memory_order_relaxed); }
  void set_detected_engine(std::uint8_t number) {
    detected_engine_.store(number, std::memory_order_relaxed);
  }

  // ---- For the admin API and the metrics ----

  /// Counts an answer with a status that says that the client is wrong, such as 404.
  void count_client_error(int status);
  /// The status of such answers, and how many there were of it in a row, up to the last answer. A
  /// backend that gives no others is probably not what its pool is for.
  struct ClientErrors {
    int status = 0;
    std::uint32_t in_a_row = 0;
  };
  ClientErrors client_errors() const;

  void count_error(Fault fault) {
    errors_[static_cast<std::size_t>(fault)].fetch_add(1, std::memory_order_relaxed);
  }
  std::uint64_t errors_total(Fault fault) const {
    return errors_[static_cast<std::size_t>(fault)].load(std::memory_order_relaxed);
  }
  /// Counts a response with a status of 500 or more, or with one of gRPC that stands for it.
  void count_failed_response() { failed_responses_.fetch_add(1, std::memory_order_relaxed); }
  std::uint64_t failed_responses_total() const {
    return failed_responses_.load(std::memory_order_relaxed);
  }
  /// Faults and failed responses.
  std::uint64_t errors_total() const;

  /// Successful responses that have begun.
  std::uint64_t responses_total() const { return responses_total_.load(std::memory_order_relaxed); }
  /// The last minute.
  RecentSummary recent_summary(Instant now) const;

 private:
  static constexpr std::uint32_t bit(OutOfRotation reason) {
    return std::uint32_t{1} << static_cast<unsigned>(reason);
  }

  // What a pick reads and writes: one cache line.
  struct alignas(64) Live {
    std::atomic<std::uint32_t> in_flight{0};
    std::atomic<std::uint32_t> out_reasons{0};
    std::atomic<std::uint32_t> limit{0};
    std::atomic<std::uint32_t> connect_failures{0};
    std::atomic<Duration::rep> backoff_until{
        0};  // of the steady clock; 0: none since the last success
    std::atomic<std::uint64_t> picks_total{0};
    PeakEwma latency;
    RecentFailures recent_failures;
  };
  static_assert(sizeof(Live) == 64);

  /// Made with the first response: most backends of a large pool may never get one.
  RecentResponses& recent() {
    RecentResponses* const made = recent_.load(std::memory_order_acquire);
    return made != nullptr ? *made : make_recent();
  }
  RecentResponses& make_recent() noexcept;

  // Written when attempts fail, and by the first success after that.
  struct alignas(64) Failures {
    std::atomic<std::uint32_t> in_a_row{0};
    std::atomic<std::uint32_t> backoffs{0};           // since the last success
    std::atomic<Duration::rep> connect_failed_at{0};  // the last attempt; of the steady clock
    std::atomic<std::uint32_t> overloads_in_a_row{0};
    std::atomic<Duration::rep> parked_until{0};  // of the steady clock
    std::atomic<std::uint64_t> total{0};
    std::atomic<std::int32_t> last_status{0};  // 0: last_fault tells
    std::atomic<Fault> last_fault{Fault::backend_closed};
    std::atomic<Duration::rep> unsafe_failed_at{0};  // a request that is not safe; 0: none did
    std::atomic<Ejection> ejection{Ejection::none};
    std::atomic<EjectionReason> ejection_reason{EjectionReason::consecutive};
    std::atomic<bool> is_probed{false};
    std::atomic<std::uint32_t> ejected_after{0};  // failures in a row
    std::atomic<Duration::rep> ejected_until{0};  // of the steady clock
    std::atomic<Duration::rep> ejected_for{0};
    std::atomic<Duration::rep> silence{0};  // until the next trial; 0: not silent
    std::array<std::atomic<std::uint64_t>, ejection_reason_count> ejections{};
  };

  // Requests to a parked backend.
  struct Overflow {
    std::atomic<Duration::rep> from{0};          // when the next one may follow
    std::atomic<Duration::rep> last_refusal{0};  // of a request that was sent after the one before
    std::atomic<Duration::rep> server_until{0};  // the end of a park by a 503
    std::atomic<std::uint32_t> refusals{0};      // since the last success
    std::atomic<bool> pending{false};            // one was sent when it was due: no refusal yet
    std::atomic<bool> refused_unsafe{false};     // a request whose method is not safe
  };

  bool proves_little(Instant now) const;
  bool end_failures(bool by_safe_method, Instant now);
  /// Then only a park can be the reason for a back-off.
  bool has_no_failures() const {
    return failures_in_a_row() == 0 && !has_connect_failures() && !silent() &&
           ejection() == Ejection::none;
  }
  void lengthen_backoff(Instant now);
  void begin_overflow(Instant now);
  void defer_overflow(const AttemptResult& result, bool parked_already, Instant now);
  void clear_park();
  void avoid_until(Instant until);
  void begin_silent_trial(Instant now);
  void clear_failures();
  void forget_outcomes();

  Live live_;
  Failures failures_;
  Overflow overflow_;
  Signals signals_;
  alignas(64) std::atomic<RecentResponses*> recent_{nullptr};
  SharedCount awaiting_clients_;
  std::atomic<std::uint64_t> queue_marks_{1};  // SubsetQueue::whole_pool
  std::atomic<std::uint64_t> responses_total_{0};
  std::atomic<std::uint64_t> other_answers_{0};
  std::atomic<std::uint64_t> served_total_{0};
  std::atomic<Duration::rep> served_sum_{0};
  std::atomic<float> learned_weight_{0};
  std::atomic<float> tokens_per_output_{1};
  std::atomic<Slowness> slowness_{};
  std::atomic<float> pick_share_{-1};
  bool ramps_ = false;
  std::uint8_t sleep_sources_ = 0;  // a bit for each that says that it sleeps
  std::atomic<std::uint8_t> detected_engine_{0};
  std::atomic<Fault> connect_fault_{Fault::connect_failed};
  std::array<std::atomic<std::uint64_t>, fault_count> errors_{};
  std::atomic<std::uint64_t> failed_responses_{0};
  std::atomic<std::uint64_t> client_errors_after_{0};  // so many successful responses
  std::atomic<std::uint32_t> client_errors_{0};
  std::atomic<int> client_error_status_{0};
};

/// For people: "time per token 10x the pool's median".
std::string describe_slowness(Slowness slowness);

/// Why a backend is ejected, for people: "5 failures in a row: 500".
std::string describe_ejection(const Load& load);

}  // namespace evenkeel
