// Ollama.
#include "inference/detection_evidence.h"
#include "inference/engines/engines.h"

namespace evenkeel {
namespace {

bool has_banner(const DetectionEvidence& responses) {
  const DetectionResponse* root = responses.at("/");
  return root != nullptr && root->status == 200 && root->body.starts_with("Ollama is running");
}

constexpr EvidenceRule rules[] = {{"/ says that Ollama is running", has_banner}};

}  // namespace

/// Ollama has no metrics; a page that the file names is read with the series of all engines.
const Engine ollama_engine{
    .name = "ollama",
    .detection = {.rules = rules},
    .health = {.path = "/", .implied_model_tag = ":latest"},
    .metrics = {.any_series = true},
    .refusals = {.overload = true},
};

}  // namespace evenkeel
