// What an engine's responses to health checks mean.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "evenkeel/inference/engine.h"

namespace evenkeel {

/// What an answer to a question of ours means.
enum class Readiness : std::uint8_t {
  ready,
  loading,        ///< it says that its model is on the way
  not_ready,      ///< it says no; whether not yet or not any more, it does not say
  model_missing,  ///< it does not know the model
  failing,        ///< anything else
};

/// Of an engine's answer at its `path`, or at one that the file names.
Readiness read_health(const Engine& engine, int status, const std::string& body);

/// The path at which `listing` answers for a model; that of `openai` is for all.
std::string model_path(ModelListing listing, std::string_view model);
/// What it answered there, for one model. Not for `openai`.
Readiness read_model(ModelListing listing, int status, const std::string& body);
/// The ids in an answer of /v1/models; nothing where it is none.
std::optional<std::vector<std::string>> read_models(const std::string& body);
/// An engine may be asked for `model` that lists these.
bool lists_model(const Engine& engine, const std::vector<std::string>& listed,
                 std::string_view model);

/// What makes an engine write one token.
struct TokenProbeRequest {
  std::string path;
  std::string body;
};
/// REQUIRES: not TokenProbe::none.
TokenProbeRequest token_probe_request(TokenProbe probe, std::string_view model);
/// An answer with a token in it. A 200 may hold an error (Triton), or nothing because the server is
/// about to leave (vLLM).
bool contains_token(TokenProbe probe, int status, const std::string& body);

/// {"is_sleeping": true}
bool reports_sleeping(int status, const std::string& body);

}  // namespace evenkeel
