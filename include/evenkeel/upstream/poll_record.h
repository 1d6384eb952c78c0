// How the metrics of one backend were last polled.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "evenkeel/base/clock.h"

namespace evenkeel {

/// The last poll of one source of metrics: an engine's own page, or a GPU exporter.
struct PollRecord {
  enum class State : std::uint8_t {
    waiting,  ///< not polled yet
    fresh,    ///< the last poll brought values
    failing,  ///< the last poll brought none: see `reason`
    resting,  ///< not polled, since a poll would wake an idle model that may sleep (llama.cpp)
    silent,   ///< there is no page to poll, or no page with usable values
  };
  State state = State::waiting;
  std::string reason;                ///< why the last poll brought no values; empty if it did
  std::optional<Instant> asked;      ///< start of the last poll
  Duration took{};                   ///< from its start to the last byte of the response
  Duration interval{};               ///< in effect now: longer than configured for a slow server
  std::uint64_t readings_total = 0;  ///< polls that brought values
  std::uint64_t failures_total = 0;
};

/// The stable word of a state, such as "failing".
std::string_view to_string(PollRecord::State state);

/// The sources of one backend.
struct PollStatus {
  PollRecord engine;
  /// Nothing if the file names no exporter. Also failing if the exporter has no values for the GPUs
  /// of this backend.
  std::optional<PollRecord> gpu_exporter;
};

}  // namespace evenkeel
