#include "evenkeel/http/inference_info.h"

#include <array>

namespace evenkeel {

const char* to_string(InferenceTask task) {
  static constexpr std::array<const char*, inference_task_count> words{
      "other", "chat", "completion", "embedding", "rerank", "score", "audio", "infer"};
  return words[static_cast<std::size_t>(task)];
}

}  // namespace evenkeel
