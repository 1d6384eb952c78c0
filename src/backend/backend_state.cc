#include "evenkeel/backend/backend_state.h"

#include <algorithm>

namespace evenkeel {

using std::chrono::milliseconds;
using std::chrono::seconds;

/// What shows how a backend is.
enum class BackendState::Event : std::uint8_t {
  connected,  ///< a new connection
  answered,   ///< the head of an answer, whatever it says
  spoke,      ///< output, as SilenceDetector counts it
  undecided,  ///< an answer that says nothing of it, such as 404
  accepted,   ///< the beginning of an answer without an error
  succeeded,  ///< the end of one
};

namespace {

/// How long a backend is avoided for a reason.
struct Rule {
  Duration first;  ///< doubled each time in a row, unless the server or a detector says how long
  Duration longest;
  Duration max_trial;  ///< the next trial follows then, if this one has no outcome
  bool trial_counts;   ///< as a failure, until its outcome is known
};

constexpr Rule rules[avoidance_count] = {
    {},
    /* failing     */ {milliseconds(50), seconds(10), seconds(10), false},
    /* overloaded  */ {seconds(1), seconds(30), seconds(1), false},
    /* unreachable */ {seconds(1), seconds(10), seconds(10), true},
    /* silent      */ {seconds(2), seconds(30), seconds(30), true},
    /* ejected     */ {seconds(30), seconds(30), seconds(30), false},  // of its trial
};

enum class Effect : std::uint8_t {
  none,
  next,    ///< of a trial: the next request is another one
  serves,  ///< it serves
};

constexpr auto none = Effect::none;
constexpr auto next = Effect::next;
constexpr auto serves = Effect::serves;

/// The transitions: what an event does to a backend that is avoided for a reason. Events of
/// requests sent before it was avoided do nothing, but for a success of one that is `failing`.
// clang-format off
constexpr Effect effects[][avoidance_count] = {
    //              none  failing overloaded unreachable silent  ejected
    /* connected */ {none, none,   none,      serves,     none,   none},
    /* answered  */ {none, none,   none,      serves,     none,   none},
    /* spoke     */ {none, none,   none,      none,       serves, none},
    /* undecided */ {none, next,   next,      serves,     next,   next},
    /* accepted  */ {none, next,   serves,    serves,     serves, next},
    /* succeeded */ {none, serves, serves,    serves,     serves, serves},
};
// clang-format on

/// How long the failure of a request counts for more than successes of safe methods.
constexpr Duration unsafe_memory = seconds(10);

}  // namespace

bool BackendState::note_sleep(SleepSource source, bool sleeps) {
  const auto own = static_cast<std::uint8_t>(1u << static_cast<unsigned>(source));
  sleep_sources_ = static_cast<std::uint8_t>(sleeps ? sleep_sources_ | own : sleep_sources_ & ~own);
  return sleep_sources_ != 0;
}

bool BackendState::failed(const AttemptResult& result, Instant now) {
  const std::lock_guard lock(mutex_);
  if (precedes_ejection(result.sent)) return false;
  details_.last_failure = result;
  if (!result.safe_method) details_.unsafe_at = now;
  failures_in_a_row_.fetch_add(1, std::memory_order_relaxed);
  avoid(Avoidance::failing, result.sent, {}, now);
  return true;
}

void BackendState::overloaded(const AttemptResult& result, Instant now) {
  const std::lock_guard lock(mutex_);
  if (precedes_ejection(result.sent)) return;
  if (!result.safe_method) details_.unsafe_at = now;
  avoid(Avoidance::overloaded, result.sent, result.retry_after, now);
}

bool BackendState::undecided(Instant sent, Instant now) {
  if (serving()) return false;
  const std::lock_guard lock(mutex_);
  return apply(Event::undecided, sent, now);
}

bool BackendState::accepted(bool safe_method, Instant sent, Instant now) {
  if (serving()) return false;
  const std::lock_guard lock(mutex_);
  return apply(proves_little(safe_method, now) ? Event::undecided : Event::accepted, sent, now);
}

bool BackendState::succeeded(bool safe_method, Instant sent, Instant now) {
  if (serving()) return false;
  const std::lock_guard lock(mutex_);
  if (proves_little(safe_method, now)) return apply(Event::undecided, sent, now);
  if (precedes_ejection(sent)) return false;
  failures_in_a_row_.store(0, std::memory_order_relaxed);
  set_times(Avoidance::failing, 0);
  return apply(Event::succeeded, sent, now);
}

bool BackendState::answered(Instant sent) {
  if (connect_failures() == 0) return false;
  const std::lock_guard lock(mutex_);
  if (is_stale(sent)) return false;
  set_times(Avoidance::unreachable, 0);
  return apply(Event::answered, sent, {});
}

void BackendState::connect_failed(Instant now, Fault fault) {
  const std::lock_guard lock(mutex_);
  details_.connect_fault = fault;
  avoid(Avoidance::unreachable, {}, {}, now);
}

bool BackendState::connected() {
  if (connect_failures() == 0) return false;
  const std::lock_guard lock(mutex_);
  set_times(Avoidance::unreachable, 0);
  if (details_.connect_fault != Fault::connect_failed) return apply(Event::connected, {}, {});
  serve();
  return true;
}

void BackendState::begin_silence(Instant now) {
  const std::lock_guard lock(mutex_);
  avoid(Avoidance::silent, {}, {}, now);
}

bool BackendState::end_silence() {
  if (why() != Avoidance::silent) return false;
  const std::lock_guard lock(mutex_);
  return apply(Event::spoke, {}, {});
}

void BackendState::eject(EjectionReason reason, Duration took, Instant now) {
  const std::lock_guard lock(mutex_);
  why_.store(Avoidance::ejected, std::memory_order_relaxed);
  on_trial_ = false;
  details_.since = now;
  details_.ejection_reason = reason;
  details_.ejected_after = failures_in_a_row();
  set_until(now + took);
  ejections_[static_cast<std::size_t>(reason)].fetch_add(1, std::memory_order_relaxed);
  take_out(OutOfRotation::ejected);
}

void BackendState::allow_trial(Instant now) {
  const std::lock_guard lock(mutex_);
  if (why() == Avoidance::ejected && avoided(now)) set_until(now);
}

void BackendState::forget() {
  const std::lock_guard lock(mutex_);
  serve();
}

BackendState::Details BackendState::details() const {
  const std::lock_guard lock(mutex_);
  Details details = details_;
  details.until = Instant(Duration(until_.load(std::memory_order_relaxed)));
  return details;
}

void BackendState::begin_trial(Instant now) {
  const std::lock_guard lock(mutex_);
  if (serving() || avoided(now)) return;  // another thread was first
  const Rule& rule = rules[index(why())];
  if (rule.trial_counts) set_times(why(), times_[index(why())] + 1);
  on_trial_ = true;
  set_until(now + std::min(time_of(why()), rule.max_trial));
}

/// Avoids the backend from now on, never shorter than before, unless this is how its trial ended.
/// What happens together is one failure, and so is what happens to requests that were on their way.
/// An ejection remains the reason until a success.
void BackendState::avoid(Avoidance reason, Instant sent, Duration asked, Instant now) {
  const bool is_late = is_stale(sent);
  const bool awaits_trial = on_trial_ && !rules[index(why())].trial_counts;
  const bool together = avoided(now) && !awaits_trial;
  if (times_[index(reason)] == 0 || (!is_late && !together)) {
    set_times(reason, times_[index(reason)] + 1);
    if (!is_late || !on_trial_) details_.since = now;
  } else if (asked == Duration{}) {
    return;
  }
  const bool decides = on_trial_ && !is_late;
  const Duration longest = rules[index(reason)].longest;
  const Instant until = now + (asked > Duration{} ? std::min(asked, longest) : time_of(reason));
  if (!decides && until.time_since_epoch().count() < until_.load(std::memory_order_relaxed)) return;
  if (decides) on_trial_ = false;
  if (why() != Avoidance::ejected) why_.store(reason, std::memory_order_relaxed);
  set_until(until);
}

bool BackendState::apply(Event event, Instant sent, Instant now) {
  const bool by_any_request = event == Event::succeeded && why() == Avoidance::failing;
  if (is_stale(sent) && !by_any_request) return false;
  switch (effects[static_cast<std::size_t>(event)][index(why())]) {
    case Effect::none: return false;
    case Effect::next:
      if (!on_trial_) return false;
      set_until(now);
      on_trial_ = false;
      return true;
    case Effect::serves: serve(); return true;
  }
  return false;
}

bool BackendState::precedes_ejection(Instant sent) const {
  return why() == Avoidance::ejected && is_stale(sent);
}

/// True if the success of a safe method says nothing yet of the requests that failed.
bool BackendState::proves_little(bool safe_method, Instant now) const {
  if (!safe_method || details_.unsafe_at == Instant{}) return false;
  return why() == Avoidance::ejected || now - details_.unsafe_at < unsafe_memory;
}

/// How long it is avoided for this reason now.
Duration BackendState::time_of(Avoidance why) const {
  const Rule& rule = rules[index(why)];
  const std::uint32_t doublings = std::clamp(times_[index(why)], 1u, 9u) - 1;
  return std::min(rule.first * (1 << doublings), rule.longest);
}

void BackendState::set_times(Avoidance why, std::uint32_t times) {
  times_[index(why)] = times;
  if (why == Avoidance::unreachable) connect_failures_.store(times, std::memory_order_relaxed);
}

void BackendState::set_until(Instant until) {
  until_.store(std::max<Duration::rep>(until.time_since_epoch().count(), 1),
               std::memory_order_relaxed);
}

void BackendState::serve() {
  times_ = {};
  on_trial_ = false;
  details_.unsafe_at = {};
  connect_failures_.store(0, std::memory_order_relaxed);
  failures_in_a_row_.store(0, std::memory_order_relaxed);
  why_.store(Avoidance::none, std::memory_order_relaxed);
  until_.store(0, std::memory_order_relaxed);
  clear(OutOfRotation::ejected);
}

std::string describe_ejection(const BackendState& state) {
  const BackendState::Details details = state.details();
  if (details.ejection_reason == EjectionReason::success_rate) {
    return "its success rate is far below that of the other backends";
  }
  const std::uint32_t failures = details.ejected_after;
  if (failures == 0) return "its requests failed before this process started";
  const AttemptResult& last = details.last_failure;
  const std::string cause =
      last.status == 0 && last.fault ? to_string(*last.fault) : std::to_string(last.status);
  return std::to_string(failures) + (failures == 1 ? " failure: " : " failures in a row: ") + cause;
}

const char* to_string(EjectionReason reason) {
  return reason == EjectionReason::consecutive ? "consecutive" : "success_rate";
}

}  // namespace evenkeel
