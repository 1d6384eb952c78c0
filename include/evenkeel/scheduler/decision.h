// Why a scheduler placed a request as it did: what it records of some requests.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "evenkeel/base/clock.h"
#include "evenkeel/base/priority.h"
#include "evenkeel/scheduler/scheduler.h"

namespace evenkeel {

/// A duration of at most a day: no prediction is of use beyond.
inline Duration duration_of(double seconds) {
  constexpr double day = 86'400;
  return std::chrono::duration_cast<Duration>(
      std::chrono::duration<double>(std::min(seconds, day)));
}

/// Why a request that was looked at did not start.
enum class HeldBy : std::uint8_t {
  order,     ///< no backend was ready, or others came before it: it was not looked at
  usable,    ///< none of the backends that it may go to takes requests now
  backlog,   ///< the cheapest backend cannot begin a prompt soon
  learning,  ///< the cheapest backend is new, and computes one prompt at a time
  memory,    ///< it does not fit in the KV cache of the cheapest backend
  streams,   ///< it would disturb streams there, and has time left
};
inline constexpr std::size_t held_by_count = 6;

/// The stable word, such as "backlog".
const char* to_string(HeldBy held_by);

/// What a request would have cost on one backend: the parts of Scheduler's formula. Times are
/// seconds.
struct CandidateCost {
  std::uint32_t slot = 0;
  std::uint64_t identity = 0;  ///< EngineFacts::identity
  SlotState state = SlotState::out;
  Confidence confidence = Confidence::cold;
  double streams = 0;     ///< that it generates
  double wait = 0;        ///< W
  double promised = 0;    ///< E: prompts of requests before this one that are held for it
  double prefill = 0;     ///< S
  double load = 0;        ///< of an adapter that the engine has not loaded, as a part of S
  double eviction = 0;    ///< of the adapter that makes room for it, if that is loaded again soon
  double cached = 0;      ///< tokens of the prompt
  double uncached = 0;    ///< likewise
  double lateness = 0;    ///< min(4, ((age + TTFT) / target)^2)
  double violations = 0;  ///< X: streams
  double decode = 0;      ///< D
  double memory = 0;      ///< M
  double cost = 0;        ///< the sum, as the formula weights its parts
  double heard_age = 0;   ///< since one of its responses last told something; infinite: none did
  double report_age = 0;  ///< of the last report of its engine; infinite: it gives none
};

/// A request as its scheduler saw it, from its arrival to its end. Copied as a whole.
struct Decision {
  static constexpr std::size_t max_candidates = 16;  ///< that are kept: the cheapest ones
  static constexpr std::size_t max_name = 128;

  enum class State : std::uint8_t {
    waits,
    placed,
    refused,   ///< its first token would have come too late
    left,      ///< it left the queue: by a timeout, for a more urgent one, or its client has gone
    moved,     ///< to the queue of a later version of the pool, which decides anew
    finished,  ///< the response is complete
    failed,    ///< the attempt ended otherwise
  };

  // The request.
  std::array<char, max_name> name_bytes{};  ///< the request's ID, cut
  std::size_t name_size = 0;
  std::uint64_t request = 0;  ///< Arrival::request: others may have the same ID
  std::uint64_t number = 0;   ///< of this record: later ones have higher ones
  bool asked = false;         ///< a client wants to see it; else it is a sample
  Instant arrived_at{};
  Priority priority = Priority::standard;
  std::uint32_t prompt_tokens = 0;
  double ttft_target = 0;  ///< seconds
  double tpot_target = 0;

  // What was decided, and why.
  std::uint32_t looks = 0;  ///< passes that looked at it
  std::array<double, held_by_count> held_seconds{};
  HeldBy held_by = HeldBy::order;
  double held_since = 0;  ///< of a clock that only the scheduler knows
  std::uint32_t held_for =
      Scheduler::no_backend;  ///< slot of the backend that it was last held for
  std::array<CandidateCost, max_candidates>
      candidates{};  ///< when it was last priced, the cheapest first
  std::size_t candidate_count = 0;
  std::size_t considered = 0;  ///< backends that it could go to, these and others
  State state = State::waits;
  std::uint32_t chosen = Scheduler::no_backend;  ///< slot
  Duration waited{};
  /// The time of the prompt where it is the shortest, in seconds, if the request was refused or
  /// left. Together with the request's age it is compared with the target.
  double least_prefill = 0;

  // What was predicted, and what came true. Times from when it was sent.
  Duration predicted_ttft{};
  double predicted_cached = 0;  ///< tokens
  double predicted_output = 0;  ///< likewise
  std::optional<Duration> ttft;
  std::optional<std::uint64_t> cached;
  std::optional<std::uint64_t> output;
  std::optional<Duration> took;  ///< until its end

  // What the pool's shadow picker would have done when the request was first priced.
  std::uint32_t shadow = Scheduler::no_backend;  ///< its choice
  std::uint32_t best = Scheduler::no_backend;    ///< the scheduler's choice at that time
  double shadow_cost = 0;                        ///< infinite: its choice takes no requests
  double best_cost = 0;

  std::string_view name() const { return {name_bytes.data(), name_size}; }
};

/// The stable word, such as "finished".
const char* to_string(Decision::State state);

/// A copy, and what its slots stand for.
struct ExplainedDecision {
  Decision decision;
  std::map<std::uint32_t, std::string> backends{};  ///< ids, of those that the pool still has

  /// "-" for none, "?" for one that is gone.
  std::string_view backend(std::uint32_t slot) const;
};

/// The decision on one line, as a dictionary of RFC 8941: for a response's field
/// `x-evenkeel-decision`. REQUIRES: the request was placed, or will not be.
std::string compact_text(const ExplainedDecision& explained);

}  // namespace evenkeel
