#include "sim/openai_response.h"

#include <fmt/format.h>

#include "evenkeel/json/writer.h"
#include "sim/http_response.h"

namespace evenkeel {
namespace {

std::string usage_object(const Usage& usage) {
  std::string details = "null";
  if (usage.cached_tokens) details = fmt::format(R"({{"cached_tokens":{}}})", *usage.cached_tokens);
  return fmt::format(
      R"({{"prompt_tokens":{},"total_tokens":{},"completion_tokens":{},"prompt_tokens_details":{}}})",
      usage.prompt_tokens, usage.prompt_tokens + usage.completion_tokens, usage.completion_tokens,
      details);
}

std::string_view stream_object(OpenAiApi api) {
  return api == OpenAiApi::chat_completions ? "chat.completion.chunk" : "text_completion";
}

std::string head_of(const CompletionHead& head, std::string_view object) {
  return fmt::format(R"({{"id":{},"object":"{}","created":{},"model":{},)", json_string(head.id),
                     object, head.created, json_string(head.model));
}

std::string fingerprint_member(const CompletionHead& head) {
  return head.fingerprint.empty() ? std::string()
                                  : fmt::format(R"(,"system_fingerprint":"{}")", head.fingerprint);
}

}  // namespace

EventTemplate event_template(const CompletionHead& head, std::uint32_t choice) {
  const std::string usage = head.null_usage ? R"(,"usage":null)" : "";
  const std::string last = usage + (head.usage_follows ? "" : fingerprint_member(head));
  const std::string begin = fmt::format(R"(data: {}"choices":[{{"index":{},)",
                                        head_of(head, stream_object(head.api)), choice);
  if (head.api == OpenAiApi::chat_completions) {
    const std::string end = R"("},"logprobs":null,"finish_reason":)";
    return {
        .opening =
            begin +
            R"("delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}])" +
            usage + "}\n\n",
        .before = begin + R"("delta":{"content":")",
        .after = end + "null}]" + usage + "}\n\n",
        .after_stop = end + R"("stop","stop_reason":null}])" + last + "}\n\n",
        .after_length = end + R"("length","stop_reason":null}])" + last + "}\n\n",
    };
  }
  const std::string end = R"(","logprobs":null,"finish_reason":)";
  return {
      .before = begin + R"("text":")",
      .after = end + R"(null,"stop_reason":null}])" + usage + "}\n\n",
      .after_stop = end + R"("stop","stop_reason":null}])" + last + "}\n\n",
      .after_length = end + R"("length","stop_reason":null}])" + last + "}\n\n",
  };
}

EventTemplate kserve_event_template(std::string_view model) {
  const std::string end = "\"}\n\n";
  return {.before = fmt::format(R"(data: {{"model_name":{},"model_version":"1","text_output":")",
                                json_string(model)),
          .after = end,
          .after_stop = end,
          .after_length = end};
}

std::string usage_event(const CompletionHead& head, const Usage& usage) {
  return fmt::format("data: {}\"choices\":[],\"usage\":{}{}}}\n\n",
                     head_of(head, stream_object(head.api)), usage_object(usage),
                     fingerprint_member(head));
}

std::string completion_body(const CompletionHead& head, const std::vector<ChoiceText>& choices,
                            const Usage& usage) {
  const bool chat = head.api == OpenAiApi::chat_completions;
  std::string body = head_of(head, chat ? "chat.completion" : "text_completion") + "\"choices\":[";
  for (std::size_t i = 0; i < choices.size(); ++i) {
    if (i > 0) body += ',';
    body += fmt::format("{{\"index\":{},", i);
    if (chat) {
      body += R"("message":{"role":"assistant","content":)";
      append_json_string(body, choices[i].text);
      body += R"(,"refusal":null,"tool_calls":[]})";
    } else {
      body += "\"text\":";
      append_json_string(body, choices[i].text);
    }
    body += fmt::format(R"(,"logprobs":null,"finish_reason":"{}","stop_reason":null}})",
                        choices[i].finished_stop ? "stop" : "length");
  }
  body += fmt::format(R"(],"usage":{}}})", usage_object(usage));
  return body;
}

std::string embeddings_body(const CompletionHead& head,
                            const std::vector<std::vector<float>>& vectors, bool as_base64,
                            const Usage& usage) {
  std::string body = head_of(head, "list") + "\"data\":[";
  for (std::size_t i = 0; i < vectors.size(); ++i) {
    if (i > 0) body += ',';
    body += fmt::format(R"({{"index":{},"object":"embedding","embedding":)", i);
    if (as_base64) {
      const auto* bytes = reinterpret_cast<const char*>(vectors[i].data());  // little-endian floats
      body += '"' + base64({bytes, vectors[i].size() * sizeof(float)}) + '"';
    } else {
      body += fmt::format("[{}]", fmt::join(vectors[i], ","));
    }
    body += '}';
  }
  body += fmt::format(R"(],"usage":{}}})", usage_object(usage));
  return body;
}

std::string models_body(std::string_view model, std::span<const std::string> adapters,
                        std::string_view owner, std::int64_t created,
                        std::uint32_t max_model_tokens) {
  constexpr std::string_view card =
      R"({{"id":{},"object":"model","created":{},"owned_by":{},"root":{},)"
      R"("parent":{},"max_model_len":{},"permission":[]}})";
  const std::string name = json_string(model);
  const std::string owned_by = json_string(owner);
  std::string cards = fmt::format(card, name, created, owned_by, name, "null", max_model_tokens);
  for (const std::string& adapter : adapters) {
    cards += ',';
    cards += fmt::format(card, json_string(adapter), created, owned_by,
                         json_string("/adapters/" + adapter), name, "null");
  }
  return fmt::format(R"({{"object":"list","data":[{}]}})", cards);
}

}  // namespace evenkeel
