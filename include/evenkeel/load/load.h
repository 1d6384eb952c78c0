// The load generator: sends chat completions at a rate, from a number of clients, or from a trace,
// and reports latencies and failures.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "evenkeel/base/clock.h"
#include "evenkeel/base/result.h"

namespace evenkeel {

/// A number of tokens, drawn evenly from [low, high].
struct TokenRange {
  std::uint32_t low = 0;
  std::uint32_t high = 0;

  bool operator==(const TokenRange&) const = default;
};

/// Reads "N" or "A..B" with 1 <= A <= B <= 10 000 000. An error says what was expected.
Result<TokenRange> parse_token_range(std::string_view text);

/// Reads "Name: value". An error says what is wrong.
Result<std::pair<std::string, std::string>> parse_header_option(std::string_view text);

/// What to send, how fast, and for how long. At most one of `rate`, `concurrency` and `trace` is
/// given; with none, `concurrency` is 8. A rate or a concurrency without `duration` and `requests`
/// runs for 10 seconds.
struct LoadOptions {
  std::string url;             ///< "http://host[:port][/base]"; POST <base>/v1/chat/completions
  double rate = 0;             ///< open loop: requests per second
  unsigned concurrency = 0;    ///< closed loop: this many clients, each waits for its response
  std::string trace;           ///< open loop: arrivals and lengths from this file
  double trace_speed = 1;      ///< divides the trace's times
  bool trace_bursts = false;   ///< keeps a quantised trace's batches together
  Duration trace_cut{};        ///< takes only this much of the trace's own time; zero: all
  bool poisson = false;        ///< with `rate`: exponential gaps instead of equal ones
  Duration duration{};         ///< no request starts later than this; zero: no limit
  std::uint64_t requests = 0;  ///< no more requests than this; zero: no limit
  TokenRange prompt_tokens{128, 128};
  TokenRange output_tokens{64, 64};
  std::uint32_t max_prompt_tokens = 0;  ///< cuts a trace's prompts; zero: no limit
  bool stream = false;
  std::string model;  ///< empty: the first that GET <base>/v1/models lists, else "default"
  std::vector<std::pair<std::string, std::string>> headers;
  Duration connect_timeout = std::chrono::seconds(10);
  Duration timeout = std::chrono::seconds(300);  ///< for the first byte, and between bytes
  Duration drain = std::chrono::seconds(120);    ///< for the last responses, after the last request
  std::uint64_t seed = 1;
  unsigned threads = 1;
  bool json = false;  ///< the report as JSON
  /// Targets of streams: what meets both is good. Zero: there is none.
  Duration ttft_slo{};
  Duration tpot_slo{};  ///< mean time per output token after the first
  std::string log;      ///< a file for a line of JSON per request; empty: none

  bool has_targets() const { return ttft_slo > Duration::zero() || tpot_slo > Duration::zero(); }
};

/// Runs the load and prints the report on stdout, and a progress line on stderr if that is a
/// terminal. Returns 0: no request failed; 1: some failed, or the load could not start; 2: the
/// options are invalid. SIGINT and SIGTERM end the load early; requests in flight then count as
/// abandoned.
int run_load(const LoadOptions& options);

}  // namespace evenkeel
