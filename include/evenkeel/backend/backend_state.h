// Whether a backend gets requests: serving, avoided, on trial, or out of rotation.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>

#include "evenkeel/backend/outcome.h"
#include "evenkeel/base/clock.h"
#include "evenkeel/base/result.h"

namespace evenkeel {

/// Why a backend gets no new requests. Several reasons may hold at a time.
enum class OutOfRotation : std::uint8_t {
  starting,    ///< not checked yet, or it reports that it is loading
  unhealthy,   ///< its health checks fail
  draining,    ///< an operator drains it
  standby,     ///< a standby backend that its pool does not need
  unresolved,  ///< its host name has no address
  ejected,     ///< avoided as `Avoidance::ejected`, before its trial
  sleeping,    ///< its engine sleeps: it holds all requests until it is woken
};

/// The source that says that an engine sleeps.
enum class SleepSource : std::uint8_t { page, check };

/// Why a backend is avoided.
enum class Avoidance : std::uint8_t {
  none,         ///< it serves
  failing,      ///< its last request failed
  overloaded,   ///< it answered 429 or 503
  unreachable,  ///< it accepts no connection
  silent,       ///< it answers nothing while others of its pool do; SilenceDetector decides
  ejected,      ///< its requests fail; OutlierDetector decides
};

inline constexpr std::size_t avoidance_count = static_cast<std::size_t>(Avoidance::ejected) + 1;

/// Why a backend is ejected.
enum class EjectionReason : std::uint8_t {
  consecutive,   ///< failures in a row
  success_rate,  ///< far fewer of its requests succeed than of the other backends'
};

inline constexpr std::size_t ejection_reason_count =
    static_cast<std::size_t>(EjectionReason::success_rate) + 1;

/// The stable word of a reason, such as "success_rate".
const char* to_string(EjectionReason reason);

/// The state of one backend, shared by all workers and versions of the file:
///
///   serving -> avoided(until, why) -> trial -> serving
///
/// Whatever the reason, a backend that is avoided gets requests only if all others are avoided too.
/// The first request after `until` is its trial, and no other follows before its outcome, or before
/// as long again. The tables in backend_state.cc say how long, and what ends it. SlowStart ramps it
/// up then. Beside this, reasons to be out of rotation, which others set and clear, keep all
/// requests away.
///
/// Thread: any. Pickers read atomics; only a transition locks.
class BackendState {
 public:
  // ---- for pickers ----

  /// True if no reason to be out of rotation holds. A backend that is out is never picked.
  bool in_rotation() const { return out_.load(std::memory_order_relaxed) == 0; }
  /// True while others get its requests.
  bool avoided(Instant now) const {
    const Duration::rep until = until_.load(std::memory_order_relaxed);
    return until != 0 && now.time_since_epoch().count() < until;
  }
  /// False if the backend is avoided, or the next request is its trial, or a trial has no outcome
  /// yet.
  bool serving() const { return until_.load(std::memory_order_relaxed) == 0; }
  /// Makes the request that begins now the trial if one is due. Cheap while it serves.
  void begin_request(Instant now) {
    if (!serving() && !avoided(now)) begin_trial(now);
  }

  // ---- reasons to be out of rotation ----

  bool is_out(OutOfRotation reason) const {
    return (out_.load(std::memory_order_relaxed) & bit(reason)) != 0;
  }
  /// The bits of the reasons other than these; 0: none holds.
  template <class... Reasons>
  std::uint32_t other_reasons(Reasons... reasons) const {
    return out_.load(std::memory_order_relaxed) & ~(bit(reasons) | ...);
  }
  void take_out(OutOfRotation reason) { out_.fetch_or(bit(reason), std::memory_order_relaxed); }
  /// True if this was the last reason. Call Backend::put_back instead, which serves the queue too.
  bool clear(OutOfRotation reason) {
    // Sequentially consistent, as Slots::release.
    return out_.fetch_and(~bit(reason), std::memory_order_seq_cst) == bit(reason);
  }
  /// Notes what a source says of its engine's sleep. True if one of them says that it sleeps.
  /// Thread: the control thread.
  bool note_sleep(SleepSource source, bool sleeps);

  // ---- events ----
  // Each returns true if the backend may get requests again, so that waiting ones may go there.

  /// Notes an attempt that failed. True if that counts: the request was sent after the last
  /// ejection.
  bool failed(const AttemptResult& result, Instant now);
  /// Notes an answer of 429 or 503.
  void overloaded(const AttemptResult& result, Instant now);
  /// Notes an answer that says nothing of the backend, such as 404, to a request sent at `sent`.
  bool undecided(Instant sent, Instant now);
  /// Notes that an answer without an error has begun, or has ended well. That of a GET, HEAD or
  /// OPTIONS proves little where requests with other methods have failed: a server may list its
  /// models and generate nothing.
  bool accepted(bool safe_method, Instant sent, Instant now);
  bool succeeded(bool safe_method, Instant sent, Instant now);
  /// Notes that an answer of any kind, to a request sent at `sent`, has begun.
  bool answered(Instant sent);
  /// Notes a connection attempt that failed. A hundred that fail together are one.
  void connect_failed(Instant now, Fault fault = Fault::connect_failed);
  /// Notes a new connection. A server that had refused some has been restarted, so everything is
  /// forgotten then.
  bool connected();
  /// Notes that the backend leaves requests unanswered, or answers again.
  void begin_silence(Instant now);
  bool end_silence();
  /// Takes the backend out of rotation; it may be tried after `took`.
  void eject(EjectionReason reason, Duration took, Instant now);
  /// Lets the next request be the trial of an ejected backend. Backend::put_back follows.
  void allow_trial(Instant now);
  /// Lets the backend serve: it returns as another process, or to a pool that ejects nothing.
  void forget();

  // ---- for detectors, and for operators ----

  /// `none` if it serves.
  Avoidance why() const { return why_.load(std::memory_order_relaxed); }
  /// True if connecting to it failed last, and it is avoided.
  bool unreachable(Instant now) const { return connect_failures() != 0 && avoided(now); }
  /// Connection attempts that failed in a row, and trials that have no outcome yet.
  std::uint32_t connect_failures() const {
    return connect_failures_.load(std::memory_order_relaxed);
  }
  /// Attempts that failed since its last success.
  std::uint32_t failures_in_a_row() const {
    return failures_in_a_row_.load(std::memory_order_relaxed);
  }
  std::uint64_t ejections_total(EjectionReason reason) const {
    return ejections_[static_cast<std::size_t>(reason)].load(std::memory_order_relaxed);
  }
  /// True if the health checker sends requests of its own to the backend while it is ejected.
  bool is_probed() const { return is_probed_.load(std::memory_order_relaxed); }
  void set_probed(bool probed) { is_probed_.store(probed, std::memory_order_relaxed); }

  /// What is remembered of the failures of a backend that does not serve.
  struct Details {
    Instant since{};      ///< when it was avoided; requests sent before prove nothing
    Instant until{};      ///< the next trial
    Instant unsafe_at{};  ///< when a request failed whose method is not safe; default: none did
    AttemptResult last_failure{};
    Fault connect_fault = Fault::connect_failed;  ///< of the last connection attempt
    EjectionReason ejection_reason = EjectionReason::consecutive;
    std::uint32_t ejected_after = 0;  ///< failures in a row
  };
  Details details() const;

 private:
  enum class Event : std::uint8_t;

  static constexpr std::uint32_t bit(OutOfRotation reason) {
    return std::uint32_t{1} << static_cast<unsigned>(reason);
  }
  static std::size_t index(Avoidance why) { return static_cast<std::size_t>(why); }

  // All below: `mutex_` is held.
  void begin_trial(Instant now);
  void avoid(Avoidance why, Instant sent, Duration asked, Instant now);
  bool apply(Event event, Instant sent, Instant now);
  bool precedes_ejection(Instant sent) const;
  bool proves_little(bool safe_method, Instant now) const;
  bool is_stale(Instant sent) const { return sent != Instant{} && sent <= details_.since; }
  Duration time_of(Avoidance why) const;
  void set_times(Avoidance why, std::uint32_t times);
  void set_until(Instant until);
  void serve();

  // What a pick reads; it changes rarely.
  alignas(64) std::atomic<std::uint32_t> out_{0};
  std::atomic<Duration::rep> until_{0};  // of the steady clock; 0: it serves
  std::atomic<Avoidance> why_{Avoidance::none};
  std::atomic<bool> is_probed_{false};
  std::uint8_t sleep_sources_ = 0;  // a bit for each that says that it sleeps
  std::atomic<std::uint32_t> connect_failures_{0};
  std::atomic<std::uint32_t> failures_in_a_row_{0};
  std::array<std::atomic<std::uint64_t>, ejection_reason_count> ejections_{};

  mutable std::mutex mutex_;                            // of all below
  bool on_trial_ = false;                               // it has no outcome yet
  std::array<std::uint32_t, avoidance_count> times_{};  // avoided so often since it served
  Details details_;
};

/// Why a backend is ejected, for people: "5 failures in a row: 500".
std::string describe_ejection(const BackendState& state);

}  // namespace evenkeel
