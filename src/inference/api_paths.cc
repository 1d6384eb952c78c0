#include "evenkeel/inference/api_paths.h"

#include <algorithm>
#include <iterator>

namespace evenkeel {
namespace {

constexpr ApiPath table[] = {
    {.path = "/v1/chat/completions",
     .api = InferenceApi::openai_chat,
     .task = InferenceTask::chat,
     .takes_stream_options = true},
    {.path = "/v1/completions",
     .api = InferenceApi::openai_completions,
     .task = InferenceTask::completion,
     .takes_stream_options = true},
    {"/v1/responses", InferenceApi::openai_responses, InferenceTask::chat},
    {"/v1/embeddings", InferenceApi::openai_embeddings, InferenceTask::embedding},
    {"/v1/messages", InferenceApi::anthropic_messages, InferenceTask::chat},
    {"/v1/messages/count_tokens", InferenceApi::other, InferenceTask::other},
    {"/v1/rerank", InferenceApi::rerank, InferenceTask::rerank},
    {"/v1/score", InferenceApi::score, InferenceTask::score},
    {.path = "/v1/audio/transcriptions",
     .api = InferenceApi::openai_audio,
     .task = InferenceTask::audio,
     .takes_forms = true},
    {.path = "/v1/audio/translations",
     .api = InferenceApi::openai_audio,
     .task = InferenceTask::audio,
     .takes_forms = true},
    {"/v1/audio/speech", InferenceApi::openai_audio, InferenceTask::audio},
    {"/v1/moderations", InferenceApi::other, InferenceTask::other},
    {"/v1/classify", InferenceApi::other, InferenceTask::other},
    {"/v1/images/generations", InferenceApi::other, InferenceTask::other},
    {"/v2/rerank", InferenceApi::rerank, InferenceTask::rerank},
    {"/rerank", InferenceApi::rerank, InferenceTask::rerank},
    {"/score", InferenceApi::score, InferenceTask::score},
    {"/api/chat", InferenceApi::ollama, InferenceTask::chat, true},
    {"/api/generate", InferenceApi::ollama, InferenceTask::completion, true},
    {"/api/embed", InferenceApi::ollama, InferenceTask::embedding},
    {"/api/embeddings", InferenceApi::ollama, InferenceTask::embedding},
    // OpenVINO Model Server
    {"/v3/chat/completions", InferenceApi::openai_chat, InferenceTask::chat},
    {"/v3/completions", InferenceApi::openai_completions, InferenceTask::completion},
    {"/v3/embeddings", InferenceApi::openai_embeddings, InferenceTask::embedding},
    {"/v3/rerank", InferenceApi::rerank, InferenceTask::rerank},
    // llama.cpp, SGLang, TGI, TEI
    {"/chat/completions", InferenceApi::openai_chat, InferenceTask::chat},
    {"/completions", InferenceApi::openai_completions, InferenceTask::completion},
    {"/completion", InferenceApi::openai_completions, InferenceTask::completion},
    {"/generate", InferenceApi::openai_completions, InferenceTask::completion},
    {"/generate_stream", InferenceApi::openai_completions, InferenceTask::completion, true},
    {"/embeddings", InferenceApi::openai_embeddings, InferenceTask::embedding},
    {"/embedding", InferenceApi::openai_embeddings, InferenceTask::embedding},
    {"/embed", InferenceApi::openai_embeddings, InferenceTask::embedding},
    {"/inference.GRPCInferenceService/ModelInfer", InferenceApi::kserve_grpc, InferenceTask::infer},
    {"/inference.GRPCInferenceService/ModelStreamInfer", InferenceApi::kserve_grpc,
     InferenceTask::infer, true},
};

}  // namespace

std::span<const ApiPath> api_paths() { return table; }

const ApiPath* api_path_of(std::string_view path) {
  const auto* const exact = std::ranges::find(table, path, &ApiPath::path);
  if (exact != std::end(table)) return exact;
  const ApiPath* longest = nullptr;
  for (const ApiPath& each : table) {
    if (each.api == InferenceApi::kserve_grpc || !path.ends_with(each.path)) continue;
    if (longest == nullptr || each.path.size() > longest->path.size()) longest = &each;
  }
  return longest;
}

}  // namespace evenkeel
