// What an engine's responses to health checks mean.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "evenkeel/inference/engine.h"

namespace evenkeel {

/// What a response to a check means.
enum class Readiness : std::uint8_t {
  ready,
  loading,        ///< the server says that its model is loading
  not_ready,      ///< the server says no; it may be starting or shutting down
  model_missing,  ///< the server does not have the model
  failing,        ///< anything else
};

/// A response at the engine's health path, or at a path that the file names.
Readiness read_health(const Engine& engine, int status, const std::string& body);

/// The path that reports on a model; with `openai` one path reports on all.
std::string model_path(ModelListing listing, std::string_view model);
/// The response at that path. REQUIRES: not `openai`.
Readiness read_model(ModelListing listing, int status, const std::string& body);
/// The ids in a response of /v1/models, of models that have one; nothing if it is not one.
std::optional<std::vector<std::string>> read_models(const std::string& body);
/// True if an engine that lists these models serves requests for `model`.
bool lists_model(const Engine& engine, const std::vector<std::string>& listed,
                 std::string_view model);

/// A request that makes an engine generate one token.
struct TokenProbeRequest {
  std::string path;
  std::string body;
};
/// REQUIRES: not TokenProbe::none.
TokenProbeRequest token_probe_request(TokenProbe probe, std::string_view model);
/// True if the response has a token in it. One with status 200 may have an error (Triton), or
/// nothing because the server shuts down (vLLM).
bool contains_token(TokenProbe probe, int status, const std::string& body);

/// True for {"is_sleeping": true}.
bool reports_sleeping(int status, const std::string& body);

}  // namespace evenkeel
