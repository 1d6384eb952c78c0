// The outcome of a load and its two renderings.
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
  std::string example;  ///< the text of the first one
};

/// Responses of one server behind a balancer, by `x-evenkeel-backend`.
struct BackendResults {
  std::uint64_t answered = 0;
  HdrHistogram ttft;
};

/// Sums over a load, or over a part of it.
struct LoadReport {
  Duration elapsed{};  ///< from the start to the last response
  std::uint64_t started = 0;
  std::uint64_t succeeded = 0;
  std::uint64_t failed = 0;
  /// Requests in flight when the load was interrupted or its drain time was over.
  std::uint64_t abandoned = 0;
  std::uint64_t prompt_tokens = 0;  ///< sent, by requests that succeeded
  std::uint64_t cached_tokens = 0;  ///< of these, found in prefix caches, by the responses' `usage`
  std::uint64_t output_tokens = 0;  ///< received; from `usage` where there is one, else events
  std::uint64_t good = 0;           ///< succeeded within the targets of the options
  std::uint64_t late_starts = 0;    ///< started more than late_start_threshold after they were due
  std::uint64_t connections = 0;    ///< opened
  std::uint64_t reused = 0;         ///< requests on a connection that had served another

  // Times count from when a request was due (open loop) or started (closed loop).
  HdrHistogram ttft;  ///< to a stream's first event with text, even if the stream fails later
  HdrHistogram tpot;  ///< first to last event, per token after the first; complete streams
  HdrHistogram inter_token_latency;  ///< between two events with text of one stream
  HdrHistogram e2e_latency;          ///< to the end of the response, of requests that succeeded
  HdrHistogram lateness;             ///< from due to started; open loop only

  /// Failures by kind: connect, timeout, reset, truncated, stream_error, protocol, status_<code>.
  std::map<std::string, LoadFailures, std::less<>> failures;
  /// `x-evenkeel-reason` of failed responses.
  std::map<std::string, std::uint64_t, std::less<>> reasons;
  std::map<std::string, BackendResults, std::less<>> backends;
  std::string log;  ///< lines of JSON, with `LoadOptions::log`

  void add_failure(std::string_view kind, std::string_view example);
  void merge(const LoadReport& other);
};

/// A start up to this late counts as on time.
inline constexpr Duration late_start_threshold = std::chrono::milliseconds(1);

/// The report as a table for a terminal, ending with a newline.
std::string render_report(const LoadOptions& options, const LoadReport& report);

/// The report as one JSON object, ending with a newline. Unknown is null, never 0.
std::string report_json(const LoadOptions& options, const LoadReport& report);

/// "1.23 ms", "45.6 s": three digits and a unit.
std::string format_duration(Duration duration);

}  // namespace evenkeel
