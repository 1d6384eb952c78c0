#include "evenkeel/inference/openai_request.h"

#include "inference/json_reader.h"

namespace evenkeel {
namespace {

using simdjson::ondemand::json_type;
using simdjson::ondemand::value;

/// A message's content: text, or parts of which only those of text count, or null.
void read_content(value content, PromptPart& part) {
  switch (content.type()) {
    case json_type::string: part.text = content.get_string().value(); return;
    case json_type::null: json::skip_value(content); return;
    case json_type::array: break;
    default: throw json::InvalidValue{"'content': Input should be a valid string or list of parts"};
  }
  for (auto element : content.get_array()) {
    value piece = element.value();
    if (piece.type() != json_type::object) {
      throw json::InvalidValue{"'content': each part should be an object"};
    }
    for (auto field : piece.get_object()) {
      const std::string_view key = field.unescaped_key();
      if (key == "text" && field.value().type() == json_type::string) {
        part.text += std::string_view(field.value().get_string());
      } else {
        json::skip_value(field.value().value());
      }
    }
  }
}

Prompt read_messages(value messages) {
  if (messages.type() != json_type::array) {
    throw json::InvalidValue{"'messages': Input should be a valid list"};
  }
  Prompt prompt;
  for (auto element : messages.get_array()) {
    value message = element.value();
    if (message.type() != json_type::object) {
      throw json::InvalidValue{"'messages': each message should be an object"};
    }
    PromptPart& part = prompt.emplace_back();
    for (auto field : message.get_object()) {
      const std::string_view key = field.unescaped_key();
      if (key == "role") {
        part.role = json::string_of(field.value().value(), "role");
      } else if (key == "content") {
        part.text.clear();
        read_content(field.value().value(), part);
      } else {
        json::skip_value(field.value().value());
      }
    }
    if (part.role.empty()) throw json::InvalidValue{"'messages': 'role': Field required"};
  }
  if (prompt.empty()) throw json::InvalidValue{"'messages': should have at least one message"};
  return prompt;
}

/// Text, token ids, or a list of either.
std::vector<Prompt> read_prompts(value prompt, std::string_view key) {
  std::vector<Prompt> prompts;
  const auto refuse = [&] {
    throw json::InvalidValue{"'" + std::string(key) +
                             "': Input should be text, token ids, or a list of them"};
  };
  const auto add_text = [&](value text) {
    prompts.push_back({PromptPart{.text = std::string(text.get_string().value())}});
  };
  if (prompt.type() == json_type::string) {
    add_text(prompt);
    return prompts;
  }
  if (prompt.type() != json_type::array) refuse();
  std::vector<std::uint64_t> ids;
  for (auto element : prompt.get_array()) {
    value item = element.value();
    switch (item.type()) {
      case json_type::string: add_text(item); break;
      case json_type::number: ids.push_back(json::count_of(item, key, 0)); break;
      case json_type::array: {
        PromptPart part;
        for (auto id : item.get_array())
          part.token_ids.push_back(json::count_of(id.value(), key, 0));
        prompts.push_back({std::move(part)});
        break;
      }
      default: refuse();
    }
  }
  if (!ids.empty() && !prompts.empty()) refuse();
  if (!ids.empty()) prompts.push_back({PromptPart{.token_ids = std::move(ids)}});
  if (prompts.empty()) throw json::InvalidValue{"'" + std::string(key) + "': should not be empty"};
  return prompts;
}

void read_stream_options(value options, OpenAiRequest& request) {
  if (options.type() != json_type::object) {
    throw json::InvalidValue{"'stream_options': Input should be a valid dictionary"};
  }
  for (auto field : options.get_object()) {
    const std::string_view key = field.unescaped_key();
    if (key == "include_usage" && !json::is_null(field.value().value())) {
      request.include_usage = json::bool_of(field.value().value(), key);
    } else {
      json::skip_value(field.value().value());
    }
  }
}

struct MaxTokens {
  std::optional<std::uint32_t> newer;  // max_completion_tokens
  std::optional<std::uint32_t> older;  // max_tokens
};

void read_field(OpenAiApi api, std::string_view key, value field, OpenAiRequest& request,
                MaxTokens& max) {
  const bool chat = api == OpenAiApi::chat_completions;
  if (json::is_null(field)) {
    json::skip_value(field);
  } else if (key == "model") {
    request.model = json::string_of(field, key);
  } else if (key == "messages" && chat) {
    request.prompts = {read_messages(field)};
  } else if ((key == "prompt" && api == OpenAiApi::completions) ||
             (key == "input" && api == OpenAiApi::embeddings)) {
    request.prompts = read_prompts(field, key);
  } else if (key == "max_completion_tokens" && chat) {
    max.newer = json::count_of(field, key, 1);
  } else if (key == "max_tokens") {
    max.older = json::count_of(field, key, 1);
  } else if (key == "min_tokens") {
    request.min_tokens = json::count_of(field, key, 0);
  } else if (key == "n") {
    request.n = json::count_of(field, key, 1);
  } else if (key == "stream") {
    request.stream = json::bool_of(field, key);
  } else if (key == "stream_options") {
    read_stream_options(field, request);
  } else if (key == "ignore_eos") {
    request.ignore_eos = json::bool_of(field, key);
  } else if (key == "seed") {
    if (field.type() == json_type::number) request.seed = json::number_text(field.raw_json_token());
    json::skip_value(field);
  } else if (key == "cache_salt") {
    request.cache_salt = json::string_of(field, key);
  } else if (key == "encoding_format") {
    request.encoding_format = json::string_of(field, key);
  } else {
    json::skip_value(field);
  }
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

Result<OpenAiRequest> parse_openai_request(OpenAiApi api, std::string& body) {
  OpenAiRequest request;
  MaxTokens max;
  auto read = json::read_object(
      body, [&](std::string_view key, value field) { read_field(api, key, field, request, max); });
  if (!read) return std::move(read.error());
  if (request.prompts.empty()) {
    return json::bad_json(std::string("'") + prompt_key(api) + "': Field required");
  }
  request.max_tokens = max.newer ? max.newer : max.older;
  return request;
}

}  // namespace evenkeel
