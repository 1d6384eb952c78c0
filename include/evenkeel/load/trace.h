// Public traces of inference traffic: when requests came, and how long they were.
#pragma once

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
  std::string tenant;                    ///< whose request it is; empty: unknown
};

/// Tokens that one id of TraceRow::block_ids stands for; the last block may be partial.
inline constexpr std::uint32_t trace_block_tokens = 512;

/// A whole trace, in the order of time.
struct Trace {
  std::vector<TraceRow> rows;
  /// Whole batches share one stamp (Mooncake's recorder wrote every 3 s): see spread_bursts.
  bool quantised = false;
};

/// Reads a trace, gzip or plain, telling its format by its first line:
/// - Mooncake JSONL (kvcache-ai/Mooncake FAST25-release): `timestamp` in ms, `input_length`,
///   `output_length`, `hash_ids`;
/// - CSV with a header: `timestamp_ms`; `context_tokens`, `input_tokens` or `prompt_tokens`;
///   `generated_tokens` or `output_tokens`; perhaps `client_id` (Azure, ServeGen).
/// Errors name the file, the line and what is wrong there.
Result<Trace> read_trace(const std::string& path);

/// The same for a text at hand; `name` only names it in errors.
Result<Trace> parse_trace(std::string_view text, const std::string& name);

/// Spreads rows that share a stamp evenly up to the next distinct one; the last such group takes as
/// long as the group before it.
void spread_bursts(std::vector<TraceRow>& rows);

}  // namespace evenkeel
