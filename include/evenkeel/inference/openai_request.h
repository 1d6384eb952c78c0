// What an OpenAI request asks of a GPU: model, prompt, how much to write and how to send it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "evenkeel/base/result.h"

namespace evenkeel {

enum class OpenAiApi : std::uint8_t { chat_completions, completions, embeddings };

/// A part of a prompt: one message of a chat, or all of a plain prompt (no role).
struct PromptPart {
  std::string role;
  std::string text;                      ///< text parts of a message, one after another
  std::vector<std::uint64_t> token_ids;  ///< where the prompt came as such
};
using Prompt = std::vector<PromptPart>;

/// The fields that matter to an engine, in its own words; all others were checked to be JSON and
/// passed over.
struct OpenAiRequest {
  std::string model;                        ///< empty: not given
  std::vector<Prompt> prompts;              ///< one for a chat, one or more otherwise
  std::optional<std::uint32_t> max_tokens;  ///< max_completion_tokens, else max_tokens
  std::uint32_t min_tokens = 0;
  std::uint32_t n = 1;  ///< answers to each prompt
  bool stream = false;
  bool include_usage = false;  ///< stream_options
  bool ignore_eos = false;
  std::string seed;             ///< as it was written: may have more digits than an integer
  std::string cache_salt;       ///< keeps prefixes of tenants apart
  std::string encoding_format;  ///< embeddings: "float" or "base64"
};

/// Reads a request body. Errors (bad_request): not JSON, no prompt, a known field of a wrong type
/// or out of range; `detail` says which. A key given twice counts as given last. `body` grows by
/// the padding that the parser reads into; its text stays.
Result<OpenAiRequest> parse_openai_request(OpenAiApi api, std::string& body);

}  // namespace evenkeel
