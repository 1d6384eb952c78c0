// What became of a load, and how it is told.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "evenkeel/base/clock.h"
#include "evenkeel/load/hdr_histogram.h"
#include "evenkeel/load/load.h"

namespace evenkeel {

/// Failures of one kind.
struct LoadFailures {
  std::uint64_t count = 0;
  std::string example;  ///< what one of them said
};

/// What one server behind a balancer answered (by `x-evenkeel-backend`).
struct BackendResults {
  std::uint64_t answered = 0;
  HdrHistogram ttft;
};

/// Sums over a load, or over a part of it.
struct LoadReport {
  Duration elapsed{};  ///< from the start to the last answer
  std::uint64_t started = 0;
  std::uint64_t succeeded = 0;
  std::uint64_t failed = 0;
  std::uint64_t abandoned =
      0;  ///< in flight when the load was interrupted or its drain time was over
  std::uint64_t prompt_tokens = 0;  ///< asked for, of requests that succeeded
  std::uint64_t cached_tokens = 0;  ///< of these, found in prefix caches, as the answers say
  std::uint64_t output_tokens = 0;  ///< received; `usage` where an answer has it, else events
  std::uint64_t late_starts = 0;    ///< started more than late_start_threshold after they were due
  std::uint64_t connections = 0;    ///< opened
  std::uint64_t reused = 0;         ///< requests on a connection that had served before

  // Counted from when a request was due (open loop) or started (closed loop).
  HdrHistogram ttft;  ///< TTFT: to the first event with text; streams, even if they fail later
  HdrHistogram tpot;  ///< TPOT: first to last event, per token after the first; whole streams
  HdrHistogram inter_token_latency;  ///< between two events with text of one stream
  HdrHistogram e2e_latency;          ///< to the end of the answer, of requests that succeeded
  HdrHistogram lateness;             ///< from due to started; open loop only

  /// By kind: connect, timeout, reset, truncated, stream_error, protocol, status_<code>.
  std::map<std::string, LoadFailures, std::less<>> failures;
  /// `x-evenkeel-reason` of failed answers.
  std::map<std::string, std::uint64_t, std::less<>> reasons;
  std::map<std::string, BackendResults, std::less<>> backends;

  void add_failure(std::string_view kind, std::string_view example);
  void merge(const LoadReport& other);
};

/// Below it a start counts as in time.
inline constexpr Duration late_start_threshold = std::chrono::milliseconds(1);

/// The report for people: a table, ending with a newline.
std::string render_report(const LoadReport& report);

/// The report for programs: one JSON object, ending with a newline. Unknown is null, never 0.
std::string report_json(const LoadOptions& options, const LoadReport& report);

/// "1.23 ms", "45.6 s": three digits and a unit.
std::string format_duration(Duration duration);

}  // namespace evenkeel
