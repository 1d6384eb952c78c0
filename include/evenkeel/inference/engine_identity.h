// Detects which engine a server runs from its responses to a few requests.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace evenkeel {

/// A server's response to GET `path`.
struct DetectionResponse {
  std::string path;
  int status = 0;
  std::string server;  ///< its `Server` field
  std::string body;
};

/// How many of the models that a server lists are kept; people see them.
inline constexpr std::size_t max_models = 1000;

struct EngineIdentity {
  std::string_view engine = "generic";  ///< as the file names it
  std::string_view evidence;            ///< what gave the engine away, for people; empty: nothing
  bool kserve = false;                  ///< it has the server metadata of KServe v2
  std::vector<std::string> models;      ///< the first ones, in the server's order; empty: unknown
  bool loading = false;                 ///< it responds, but says that it cannot serve yet
  bool requires_api_key = false;        ///< it does not list its models without one

  /// True if the server has shown what it is. Otherwise it may be anything.
  bool known() const { return !evidence.empty() || kserve; }
};

/// The paths to GET, in rounds. The next round is for a server that the rounds before have not
/// identified, so most servers get no request that they do not know. No such request changes
/// anything, starts a generation, or wakes a model. Two paths are never requested: /health (SGLang
/// generates a token for it, trtllm-serve exits if it finds its engine dead) and /metrics (reading
/// trtllm-serve's consumes its data, reading llama-server's wakes a sleeping model).
std::span<const std::span<const std::string_view>> detection_rounds();

/// True if the server has handled the request, if only with "not found". Another status may be
/// different the next time.
bool is_conclusive(const DetectionResponse& response);

/// What the responses show, in any order and number. A server that shows nothing is generic.
EngineIdentity identify_engine(const std::vector<DetectionResponse>& responses);

}  // namespace evenkeel
