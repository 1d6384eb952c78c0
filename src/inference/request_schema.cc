#include "inference/request_schema.h"

#include <algorithm>
#include <span>

#include "evenkeel/base/ascii.h"

namespace evenkeel {
namespace {

using enum Slot;

constexpr auto tools_section = PromptSection::tools;
constexpr auto system_section = PromptSection::system;

// Members in all APIs but KServe's.
constexpr Member common_members[] = {
    {"model", model},
    {"stream", stream},
    {"max_tokens", max_tokens},
    {"stream_options", stream_options},
    {"n", choices},
    {"user", user},
    {"safety_identifier", safety_identifier},
    {"session_id", session_id},
    {"prompt_cache_key", prompt_cache_key},
    {"vllm_xargs", vllm_xargs},
    {"priority", priority},
    {"rid", rid},
    {"previous_response_id", previous_response},
    {"conversation", conversation},
};

constexpr Member chat_members[] = {
    {"temperature", temperature},
    {"seed", seed},
    {"messages", messages},
    {"tools", tree, tools_section},
    {"functions", tree, tools_section},
    {"max_completion_tokens", max_completion_tokens},
    {"n_predict", n_predict},
};

constexpr Member completion_members[] = {
    {"temperature", temperature},
    {"seed", seed},
    {"prompt", prompt},
    {"suffix", text},
    {"n_predict", n_predict},
    // SGLang's /generate
    {"text", prompt},
    {"input_ids", prompt},
    {"image_data", images},
    {"sampling_params", sampling_params},
    // TGI's /generate
    {"inputs", prompt},
    {"parameters", tgi_parameters},
};

constexpr Member responses_members[] = {
    {"temperature", temperature},
    {"seed", seed},
    {"input", messages},
    {"instructions", content, system_section},
    {"tools", tree, tools_section},
    {"max_output_tokens", max_output_tokens},
};

constexpr Member embedding_members[] = {
    {"input", prompt},   {"messages", messages}, {"inputs", prompt},  // TEI
    {"texts", prompt},                                                // Cohere
    {"content", prompt},                                              // llama.cpp
};

constexpr Member speech_members[] = {{"input", prompt}};

constexpr Member anthropic_members[] = {
    {"temperature", temperature},   {"seed", seed},
    {"messages", messages},         {"system", content, system_section},
    {"tools", tree, tools_section}, {"metadata", metadata},
};

constexpr Member rerank_members[] = {
    {"query", prompt},
    {"documents", prompt},
    {"texts", prompt},
};

constexpr Member score_members[] = {
    {"text_1", prompt}, {"text_2", prompt}, {"queries", prompt}, {"documents", prompt},
    {"query", prompt},  {"items", prompt},  {"data_1", prompt},  {"data_2", prompt},
};

constexpr Member ollama_members[] = {
    {"messages", messages},
    {"prompt", prompt},
    {"suffix", text},
    {"input", prompt},
    {"context", prompt},
    {"images", images},
    {"system", content, system_section},
    {"tools", tree, tools_section},
    {"options", ollama_options},
};

constexpr Member ollama_model_members[] = {
    {"name", model_name}, {"source", model_name},  // of a copy
};

constexpr Member infer_members[] = {
    {"inputs", tensors},
    {"parameters", kserve_parameters},
};

constexpr Member generate_members[] = {
    {"text_input", prompt},       {"max_tokens", max_tokens},
    {"stream", stream},           {"parameters", generate_parameters},
    {"sequence_id", sequence_id}, {"sequence_start", sequence_start},
};

std::span<const Member> root_members(InferenceApi api) {
  switch (api) {
    case InferenceApi::openai_chat: return chat_members;
    case InferenceApi::openai_completions: return completion_members;
    case InferenceApi::openai_responses: return responses_members;
    case InferenceApi::openai_embeddings: return embedding_members;
    case InferenceApi::openai_audio: return speech_members;
    case InferenceApi::anthropic_messages: return anthropic_members;
    case InferenceApi::rerank: return rerank_members;
    case InferenceApi::score: return score_members;
    case InferenceApi::ollama: return ollama_members;
    case InferenceApi::ollama_model: return ollama_model_members;
    case InferenceApi::kserve_infer: return infer_members;
    case InferenceApi::kserve_generate: return generate_members;
    case InferenceApi::path_model:
    case InferenceApi::kserve_grpc:
    case InferenceApi::other: break;
  }
  return {};
}

bool is_kserve(InferenceApi api) {
  return api == InferenceApi::kserve_infer || api == InferenceApi::kserve_generate;
}

// A message of a chat, or an item of the input of a response.
constexpr Member message_members[] = {
    {"role", role},        {"content", content},     {"name", text},
    {"tool_calls", calls}, {"function_call", calls}, {"reasoning_content", text},
    {"reasoning", text},   {"thinking", text},  // Ollama
    {"images", images},                         // Ollama
    {"refusal", text},     {"text", text},           {"image_url", image},
    {"arguments", tree},   {"output", content},      {"summary", content},
};

constexpr Member part_members[] = {
    {"type", part_type},
    {"text", text},
    {"content", content},
    {"image_url", image},
    {"source", media},
    {"thinking", text},
    {"name", text},
    {"input", tree},
    {"arguments", tree},
    {"output", content},
    {"refusal", text},
    {"title", text},
    {"context", text},
    {"prompt_string", text},      // llama.cpp
    {"multimodal_data", images},  // llama.cpp
    {"image", media},
    {"image_embeds", media},
    {"input_audio", media},
    {"audio_url", media},
    {"video_url", media},
    {"file", media},
    {"file_data", media},
    {"file_id", media},
    {"file_url", media},
    {"data", media},
};

constexpr Member call_members[] = {
    {"function", calls},
    {"name", text},
    {"arguments", tree},
};

constexpr Member stream_options_members[] = {{"include_usage", include_usage}};
constexpr Member xargs_members[] = {{"session_id", xargs_session_id}};
constexpr Member conversation_members[] = {{"id", conversation}};
constexpr Member metadata_members[] = {{"user_id", metadata_user}};
constexpr Member ollama_options_members[] = {
    {"num_predict", num_predict}, {"temperature", temperature}, {"seed", seed}};
constexpr Member sampling_members[] = {{"max_new_tokens", max_new_tokens},
                                       {"temperature", temperature},
                                       {"seed", seed},
                                       {"sampling_seed", seed}};  // SGLang
constexpr Member kserve_parameters_members[] = {{"sequence_id", sequence_id},
                                                {"sequence_start", sequence_start}};
constexpr Member generate_parameters_members[] = {{"max_tokens", max_tokens},
                                                  {"stream", stream},
                                                  {"sequence_id", sequence_id},
                                                  {"sequence_start", sequence_start}};
constexpr Member tensor_members[] = {
    {"datatype", datatype},
    {"shape", shape},
    {"data", data},
    {"parameters", tensor_parameters},
};
constexpr Member tensor_parameters_members[] = {{"binary_data_size", binary_data_size}};

std::span<const Member> members_of(Slot object) {
  switch (object) {
    case message: return message_members;
    case part: return part_members;
    case calls: return call_members;
    case stream_options: return stream_options_members;
    case vllm_xargs: return xargs_members;
    case conversation: return conversation_members;
    case metadata: return metadata_members;
    case ollama_options: return ollama_options_members;
    case sampling_params:
    case tgi_parameters: return sampling_members;
    case kserve_parameters: return kserve_parameters_members;
    case generate_parameters: return generate_parameters_members;
    case tensor: return tensor_members;
    case tensor_parameters: return tensor_parameters_members;
    default: return {};
  }
}

const Member* find(std::span<const Member> members, std::string_view key) {
  if (key.empty()) return nullptr;
  const auto found = std::ranges::find_if(members, [key](const Member& each) {
    return each.key.front() == key.front() && each.key == key;
  });
  return found == members.end() ? nullptr : &*found;
}

}  // namespace

std::string go_field_name(std::string_view key) {
  constexpr std::string_view long_s = "\u017f";
  constexpr std::string_view kelvin = "\u212a";
  std::string name;
  while (!key.empty()) {
    std::size_t size = 1;
    char c = to_lower(key.front());
    if (key.starts_with(long_s)) {
      size = long_s.size();
      c = 's';
    } else if (key.starts_with(kelvin)) {
      size = kelvin.size();
      c = 'k';
    }
    name += c;
    key.remove_prefix(size);
  }
  return name;
}

const Member* find_root_member(InferenceApi api, std::string_view key) {
  if (!is_kserve(api)) {
    if (const Member* common = find(common_members, key)) return common;
  }
  return find(root_members(api), key);
}

Slot member_slot(Slot object, std::string_view key) {
  if (object == tree || object == media) return object;
  const Member* member = find(members_of(object), key);
  return member == nullptr ? ignored : member->slot;
}

Slot element_slot(Slot array) {
  switch (array) {
    case messages: return message;
    case images: return image;
    case tensors: return tensor;
    default: return array;
  }
}

Slot object_slot(Slot slot) {
  switch (slot) {
    case content:
    case prompt: return part;
    case image: return media;
    case message:
    case calls:
    case tree:
    case media:
    case tensor:
    case tensor_parameters:
    case stream_options:
    case vllm_xargs:
    case conversation:
    case metadata:
    case ollama_options:
    case sampling_params:
    case tgi_parameters:
    case kserve_parameters:
    case generate_parameters: return slot;
    default: return ignored;
  }
}

Slot array_slot(Slot slot) {
  switch (slot) {
    case image: return media;
    case messages:
    case images:
    case tensors:
    case content:
    case prompt:
    case calls:
    case tree:
    case media:
    case shape:
    case data: return slot;
    default: return ignored;
  }
}

}  // namespace evenkeel
