// Which engine a server runs, told from what it answers to a few questions.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace evenkeel {

/// What a server said to a GET of `path`.
struct ProbeResponse {
  std::string path;
  int status = 0;
  std::string server;  ///< its `Server` field
  std::string body;
};

/// Of the models that a server lists, how many are kept for people to see.
inline constexpr std::size_t max_models = 1000;

struct EngineIdentity {
  std::string_view engine = "generic";  ///< as the file names it
  std::string_view evidence;            ///< what gave it away, for people; empty: nothing did
  bool kserve = false;                  ///< it says of itself what KServe v2 has servers say
  std::vector<std::string> models;  ///< in the server's order, the first of them; empty: unknown
  bool loading = false;             ///< it answers, but says that it cannot serve yet
  bool requires_api_key = false;    ///< it does not list its models without one

  /// It has shown what it is; else it may be anything.
  bool known() const { return !evidence.empty() || kserve; }
};

/// The paths to GET, in rounds: the next round is for a server that the rounds before left generic,
/// so that most servers get no question that they do not know. No question changes anything, starts
/// a generation, or wakes a model. Never among them: /health (SGLang generates a token for it,
/// trtllm-serve ends itself when it finds its engine dead) and /metrics (trtllm-serve's is consumed
/// by reading, llama-server's wakes a sleeping model).
std::span<const std::span<const std::string_view>> probe_rounds();

/// The server has said something to the question, if only that it does not know it. What it failed
/// to answer, it may answer later.
bool is_conclusive(const ProbeResponse& response);

/// What the answers say, in any order and number. A server that gives no sign is generic.
EngineIdentity identify_engine(const std::vector<ProbeResponse>& responses);

}  // namespace evenkeel
