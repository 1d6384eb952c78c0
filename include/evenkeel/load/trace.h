// Public traces of inference traffic: arrival times and lengths of requests.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "evenkeel/base/clock.h"
#include "evenkeel/base/result.h"

namespace evenkeel {

/// One request of a trace.
struct TraceRow {
  Duration due{};  ///< after the start of the trace
  std::uint32_t prompt_tokens = 0;
  std::uint32_t output_tokens = 0;
  std::vector<std::uint64_t> block_ids;  ///< of the prompt's prefix blocks; empty: unknown
  std::string tenant;                    ///< the client; empty: unknown
};

/// Tokens that one id of TraceRow::block_ids stands for; the last block may be partial.
inline constexpr std::uint32_t trace_block_tokens = 512;

/// A trace, ordered by time.
struct Trace {
  std::vector<TraceRow> rows;
  /// True if many rows share each timestamp (Mooncake's recorder wrote every 3 s); see
  /// spread_bursts.
  bool quantised = false;
  /// Lines of an access log without counts of tokens.
  std::size_t left_out = 0;
};

/// Reads a trace, gzip or plain, and detects its format by the first line:
/// - Mooncake JSONL (kvcache-ai/Mooncake FAST25-release): `timestamp` in ms, `input_length`,
///   `output_length`, `hash_ids`;
/// - CSV with a header: `timestamp_ms`; `context_tokens`, `input_tokens` or `prompt_tokens`;
///   `generated_tokens` or `output_tokens`; optionally `client_id` (ServeGen);
/// - CSV as Azure publishes it: `TIMESTAMP,ContextTokens,GeneratedTokens`, with dates;
/// - evenkeel's access log: `time`, `prompt_tokens`, `completion_tokens`, `tenant`. Lines without
///   counts of tokens are left out.
/// Times that are dates count from the first one.
/// An error names the file, the line and the problem.
Result<Trace> read_trace(const std::string& path);

/// The same from memory; `name` is used in errors.
Result<Trace> parse_trace(std::string_view text, const std::string& name);

/// Spreads rows with equal timestamps evenly up to the next timestamp; the last group over as long
/// as the one before it.
void spread_bursts(std::vector<TraceRow>& rows);

}  // namespace evenkeel
