#include "sim/openai_request.h"

#include <utility>

#include "sim/json_fields.h"

namespace evenkeel {
namespace {

/// The text of a message: its content, or the parts of it that are text.
std::string content_of(const JsonValue& content, JsonFields& request) {
  if (content.is_text() || content.is_null()) return content.text();
  if (!content.is_array()) {
    request.refuse("content", "Input should be a valid string or list of parts");
  }
  std::string text;
  for (const JsonValue& part : content.items()) {
    if (!part.is_object()) request.refuse("content", "each part should be an object");
    text += part["text"].text();
  }
  return text;
}

std::vector<Prompt> read_messages(JsonFields& request) {
  const JsonValue& messages = request["messages"];
  if (messages.is_null()) return {};
  if (!messages.is_array()) request.refuse("messages", "Input should be a valid list");
  Prompt prompt;
  for (const JsonValue& each : messages.items()) {
    if (!each.is_object()) request.refuse("messages", "each message should be an object");
    JsonFields message(each);
    prompt.push_back({.role = message.text("role"),
                      .text = content_of(message["content"], request),
                      .token_ids = {}});
    if (prompt.back().role.empty()) request.refuse("messages", "'role': Field required");
  }
  if (prompt.empty()) request.refuse("messages", "should have at least one message");
  return {std::move(prompt)};
}

std::vector<std::uint64_t> token_ids_in(std::string_view key, const JsonValue& list,
                                        JsonFields& request) {
  std::vector<std::uint64_t> ids;
  for (const JsonValue& id : list.items()) ids.push_back(request.count(key, id, 0).value_or(0));
  return ids;
}

/// Text, token ids, or a list of either.
std::vector<Prompt> read_prompts(std::string_view key, JsonFields& request) {
  const JsonValue& prompt = request[key];
  if (prompt.is_null()) return {};
  std::vector<Prompt> prompts;
  const auto add_text = [&](const JsonValue& text) {
    prompts.push_back({PromptPart{.role = {}, .text = text.text(), .token_ids = {}}});
  };
  const auto add_ids = [&](const JsonValue& list) {
    prompts.push_back(
        {PromptPart{.role = {}, .text = {}, .token_ids = token_ids_in(key, list, request)}});
  };
  const JsonValue::List& items = prompt.items();
  if (prompt.is_text()) {
    add_text(prompt);
  } else if (!items.empty() && items.front().is_number()) {
    add_ids(prompt);
  } else {
    for (const JsonValue& item : items) {
      if (!item.is_text() && !item.is_array()) {
        request.refuse(key, "Input should be text, token ids, or a list of them");
      }
      item.is_array() ? add_ids(item) : add_text(item);
    }
  }
  if (prompts.empty()) {
    request.refuse(key, prompt.is_array() ? "should not be empty"
                                          : "Input should be text, token ids, or a list of them");
  }
  return prompts;
}

const char* prompt_key(OpenAiApi api) {
  switch (api) {
    case OpenAiApi::chat_completions: return "messages";
    case OpenAiApi::completions: return "prompt";
    case OpenAiApi::embeddings: return "input";
  }
  return "";
}

}  // namespace

Result<OpenAiRequest> parse_openai_request(OpenAiApi api, std::string_view body) {
  const auto document = parse_json_object(body);
  if (!document) return document.error();
  JsonFields fields(*document);
  JsonFields options(fields["stream_options"]);
  const bool is_chat = api == OpenAiApi::chat_completions;
  OpenAiRequest request{
      .model = fields.text("model"),
      .prompts = is_chat ? read_messages(fields) : read_prompts(prompt_key(api), fields),
      .max_tokens = is_chat ? fields.count("max_completion_tokens", 1) : std::nullopt,
      .min_tokens = fields.count("min_tokens", 0).value_or(0),
      .n = fields.count("n", 1).value_or(1),
      .stream = fields.truth("stream"),
      .include_usage = options.truth("include_usage"),
      .ignore_eos = fields.truth("ignore_eos"),
      .seed = fields["seed"].number_text(),
      .cache_salt = fields.text("cache_salt"),
      .encoding_format = fields.text("encoding_format")};
  const auto older = fields.count("max_tokens", 1);
  if (!request.max_tokens) request.max_tokens = older;
  if (!fields.problem().empty()) return bad_request(fields.problem());
  if (!options.problem().empty()) return bad_request(options.problem());
  if (request.prompts.empty()) {
    return bad_request(std::string("'") + prompt_key(api) + "': Field required");
  }
  return request;
}

}  // namespace evenkeel
