// The paths of the inference APIs: the one table of them.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "evenkeel/http/inference_info.h"

namespace evenkeel {

/// The APIs whose requests are read.
enum class InferenceApi : std::uint8_t {
  openai_chat,         ///< /v1/chat/completions
  openai_completions,  ///< /v1/completions; llama.cpp's /completion, SGLang's and TGI's /generate
  openai_responses,    ///< /v1/responses
  openai_embeddings,   ///< /v1/embeddings
  openai_audio,  ///< /v1/audio/{transcriptions,translations}: multipart; /v1/audio/speech: JSON
  anthropic_messages,  ///< /v1/messages
  rerank,              ///< /rerank, /v1/rerank, /v2/rerank
  score,               ///< /score, /v1/score
  ollama,              ///< /api/chat, /api/generate, /api/embed, /api/embeddings
  ollama_model,        ///< other paths below Ollama's /api/: `model`, or `name`, or `source`
  kserve_infer,        ///< /v2/models/M[/versions/V]/infer: the model is in the path
  kserve_generate,     ///< /v2/models/M[/versions/V]/generate[_stream]
  path_model,          ///< /v1/models/M:predict and the like: see model_in_path
  kserve_grpc,         ///< inference.GRPCInferenceService/ModelInfer and ModelStreamInfer
  other,               ///< any other path: JSON or a form that may name a model
};

/// A path of which more is known than that its bodies may name a model.
struct ApiPath {
  std::string_view path;
  InferenceApi api;
  InferenceTask task;
  bool streams = false;               ///< unless the body says otherwise
  bool takes_forms = false;           ///< bodies are forms
  bool takes_stream_options = false;  ///< of OpenAI's API
};

std::span<const ApiPath> api_paths();

/// The known path that `path` is, or ends with: an API may have a prefix. Null: none.
const ApiPath* api_path_of(std::string_view path);

}  // namespace evenkeel
