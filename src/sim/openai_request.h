// What an OpenAI request demands of an engine: model, prompt, length and form of the output.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "evenkeel/base/result.h"

namespace evenkeel {

enum class OpenAiApi : std::uint8_t { chat_completions, completions, embeddings };

/// A part of a prompt: one message of a chat, or all of a plain prompt (no role).
struct PromptPart {
  std::string role;
  std::string text;                      ///< text parts of a message, one after another
  std::vector<std::uint64_t> token_ids;  ///< if the prompt is given as tokens
};
using Prompt = std::vector<PromptPart>;

/// The fields that matter here, by their names in the API. All others are checked to be JSON, then
/// ignored.
struct OpenAiRequest {
  std::string model;                        ///< empty: none given
  std::vector<Prompt> prompts;              ///< one for a chat, one or more otherwise
  std::optional<std::uint32_t> max_tokens;  ///< max_completion_tokens, else max_tokens
  std::uint32_t min_tokens = 0;
  std::uint32_t n = 1;  ///< choices for each prompt
  bool stream = false;
  bool include_usage = false;  ///< stream_options
  bool ignore_eos = false;
  std::string seed;             ///< as written: may have more digits than an integer
  std::string cache_salt;       ///< keeps prefixes of tenants apart
  std::string encoding_format;  ///< embeddings: "float" or "base64"
};

/// Parses a request body. Errors (bad_request): not JSON, no prompt, a known field of a wrong type
/// or out of range; `detail` says which. A key given twice counts as given last.
Result<OpenAiRequest> parse_openai_request(OpenAiApi api, std::string_view body);

}  // namespace evenkeel
