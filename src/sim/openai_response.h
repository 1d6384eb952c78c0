// The JSON of OpenAI's API, as vLLM writes it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/openai_request.h"

namespace evenkeel {

/// What all parts of one response share.
struct CompletionHead {
  OpenAiApi api = OpenAiApi::chat_completions;
  std::string id;
  std::int64_t created = 0;
  std::string model;
  bool null_usage = false;       ///< events of streams have `"usage":null`
  std::string_view fingerprint;  ///< of a stream's last event but [DONE]; empty: none
  bool usage_follows = false;    ///< that event is the one with the usage
};

struct Usage {
  std::uint64_t prompt_tokens = 0;
  std::uint64_t completion_tokens = 0;
  std::optional<std::uint64_t> cached_tokens;  ///< nothing: not reported
};

/// The server-sent events of one choice, complete but for the word: a token costs three appends.
struct EventTemplate {
  std::string opening;       ///< before the first token
  std::string before;        ///< before each word
  std::string after;         ///< after each word but the last
  std::string after_stop;    ///< after the last, finish_reason "stop"
  std::string after_length;  ///< after the last, finish_reason "length"
};

EventTemplate event_template(const CompletionHead& head, std::uint32_t choice);
/// Triton's `generate_stream`.
EventTemplate kserve_event_template(std::string_view model);
std::string usage_event(const CompletionHead& head, const Usage& usage);
inline constexpr std::string_view done_event = "data: [DONE]\n\n";

struct ChoiceText {
  std::string text;
  bool finished_stop = false;  ///< rather than by max_tokens
};
/// The body of a response that is not streamed.
std::string completion_body(const CompletionHead& head, const std::vector<ChoiceText>& choices,
                            const Usage& usage);
std::string embeddings_body(const CompletionHead& head,
                            const std::vector<std::vector<float>>& vectors, bool base64,
                            const Usage& usage);
std::string models_body(std::string_view model, std::span<const std::string> adapters,
                        std::string_view owner, std::int64_t created,
                        std::uint32_t max_model_tokens);

}  // namespace evenkeel
