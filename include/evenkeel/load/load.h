// The load generator: chat completions at a rate, from so many clients, or as a trace says; and
// what became of them.
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

/// Reads "N" or "A..B" with 1 <= A <= B <= 10 000 000. Errors say what was expected.
Result<TokenRange> parse_token_range(std::string_view text);

/// Reads "Name: value". Errors say what is wrong with it.
Result<std::pair<std::string, std::string>> parse_header_option(std::string_view text);

/// What to send, how fast, and for how long. Of `rate`, `concurrency` and `trace` one is given, or
/// none: then `concurrency` is 8. A rate or a concurrency without `duration` and `requests` runs
/// for 10 seconds.
struct LoadOptions {
  std::string url;             ///< "http://host[:port][/base]"; POST <base>/v1/chat/completions
  double rate = 0;             ///< open loop: requests per second
  unsigned concurrency = 0;    ///< closed loop: each of so many clients waits for its answer
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
  Duration drain = std::chrono::seconds(120);    ///< for the last answers, after the last request
  std::uint64_t seed = 1;
  unsigned threads = 1;
  bool json = false;  ///< the report as JSON
};

/// Runs the load, with a progress line on stderr if that is a terminal and the report on stdout.
/// 0: no request failed. 1: some did, or nothing could be started. 2: the options make no sense.
/// An interrupt (SIGINT, SIGTERM) ends the load early; what is in flight then counts as abandoned.
int run_load(const LoadOptions& options);

}  // namespace evenkeel
