// How each engine wants to be asked whether it can serve, and what its answers mean.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace evenkeel {

/// Where an engine says which models it serves.
enum class ModelListing : std::uint8_t {
  openai,      ///< GET /v1/models: all of them
  kserve,      ///< GET /v2/models/M/ready
  tfserving,   ///< GET /v1/models/M: its versions and their states
  torchserve,  ///< GET /models/M, of the management API: its workers
};

/// How an engine is made to write one token.
enum class TokenProbe : std::uint8_t {
  none,        ///< there is no way that holds for all of its models
  completion,  ///< POST /v1/completions
  kserve,      ///< POST /v2/models/M/generate
};

/// An engine's own way to be asked. What stands in docs/health.md comes from here.
struct EnginePreset {
  std::string_view engine;
  std::string_view path;  ///< of its health; empty: it has none that says anything
  ModelListing listing = ModelListing::openai;
  TokenProbe token = TokenProbe::completion;
  /// Its `path` fails as soon as any model does, needed or not: where models are asked for one by
  /// one, it is left out.
  bool path_covers_all_models = false;
  /// Where it says that it sleeps: healthy, but whatever is sent to it waits until it is woken.
  /// Empty: nowhere.
  std::string_view sleep_path = {};
  /// Told to stop, it takes no new connections, while those that are there last: served (Triton),
  /// or silent (vLLM, llama.cpp). A check has to come anew to see it.
  bool closes_listener_first = false;
  bool empty_object_means_loading = false;  ///< at its `path`, 200 with {} has nothing to serve yet
  bool serves_kserve_grpc = false;          ///< its gRPC port has inference.GRPCInferenceService
};

/// That of "generic" for an engine that is not known.
const EnginePreset& preset_of(std::string_view engine);

/// What an answer to a question of ours means.
enum class Readiness : std::uint8_t {
  ready,
  loading,        ///< it says that its model is on the way
  not_ready,      ///< it says no; whether not yet or not any more, it does not say
  model_missing,  ///< it does not know the model
  failing,        ///< anything else
};

/// Of an engine's answer at its `path`, or at one that the file names.
Readiness read_health(std::string_view engine, int status, const std::string& body);

/// The path at which `listing` answers for a model; that of `openai` is for all.
std::string model_path(ModelListing listing, std::string_view model);
/// What it answered there, for one model. Not for `openai`.
Readiness read_model(ModelListing listing, int status, const std::string& body);
/// The ids in an answer of /v1/models; nothing where it is none.
std::optional<std::vector<std::string>> read_models(const std::string& body);
/// An engine may be asked for `model` that lists these.
bool lists_model(std::string_view engine, const std::vector<std::string>& listed,
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
