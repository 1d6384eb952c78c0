// The keys that matter in the responses of inference engines.
#pragma once

#include <cstdint>
#include <string_view>

namespace evenkeel {

enum class ResponseKey : std::uint8_t {
  none,
  // Objects and lists.
  audio,
  choices,
  delta,
  details,
  error,
  function,
  incomplete_details,
  message,
  meta_info,
  outputs,
  progress,
  prompt_tokens_details,
  response,
  timings,
  token,
  tool_calls,
  usage,
  // Output.
  arguments,
  content,
  data,
  item_id,
  name,
  partial_json,
  reasoning,
  refusal,
  text,
  text_output,
  thinking,
  transcript,
  // Why it ended.
  done_reason,
  finish_reason,
  index,
  reason,
  status,
  stop_reason,
  stop_type,
  type,
  // What the server calls it; response_key_of does not know it.
  id,
  // Counts of tokens.
  cache_creation_input_tokens,
  cache_n,
  cache_read_input_tokens,
  cached_tokens,
  completion_tokens,
  eval_count,
  generated_tokens,
  input_length,
  predicted_n,
  prompt_eval_count,
  prompt_n,
  prompt_tokens,
  tokens_evaluated,
  tokens_predicted,
  total_tokens,
};

/// Keys that mean the same have one number: `input_tokens` is `prompt_tokens`.
ResponseKey response_key_of(std::string_view name);

}  // namespace evenkeel
