// The one table of inference engines: everything that is specific to an engine stands in its entry.
// A new engine is a file in src/inference/engines/ and its name in engines.h there; its metrics and
// responses are recorded in tests/inference.
#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <string_view>

#include "evenkeel/inference/metric_series.h"

namespace evenkeel {

class DetectionEvidence;

/// What `engine: auto` stands for until detection has found the engine. No engine has this name.
inline constexpr std::string_view undetected_engine = "auto";

/// One way to recognise an engine by its responses to the requests of detection.
struct EvidenceRule {
  std::string_view evidence;  ///< what gave the engine away, for people
  bool (*matches)(const DetectionEvidence&);
};

struct EngineDetectionRules {
  std::span<const EvidenceRule> rules = {};
  /// The server says that its model is still loading. Null: this engine never does.
  bool (*reports_loading)(const DetectionEvidence&) = nullptr;
};

/// Where an engine says which models it serves.
enum class ModelListing : std::uint8_t {
  openai,      ///< GET /v1/models: all of them
  kserve,      ///< GET /v2/models/M/ready
  tfserving,   ///< GET /v1/models/M: its versions and their states
  torchserve,  ///< GET /models/M, of the management API: its workers
};

/// How an engine is made to generate one token.
enum class TokenProbe : std::uint8_t {
  none,        ///< no request works for all models
  completion,  ///< POST /v1/completions
  kserve,      ///< POST /v2/models/M/generate
};

/// How to check an engine's health. docs/engines.md lists these.
struct EngineHealth {
  std::string_view path;  ///< of its health endpoint; empty: it has none that means anything
  ModelListing listing = ModelListing::openai;
  TokenProbe token = TokenProbe::completion;
  /// True if `path` is requested unless the file says otherwise; false if nothing is known of the
  /// engine's API, so that the file must say `check: http`.
  bool check_by_default = true;
  int not_ready_status = 503;  ///< means "not ready" at `path`, besides 503
  /// True if `path` fails when any model does, needed or not: skipped if models are checked singly.
  bool path_covers_all_models = false;
  bool empty_object_means_loading = false;  ///< `{}` at `path`: there is nothing to serve yet
  /// Reports whether the server sleeps: it is healthy then, but holds all requests until it is
  /// woken. Empty: nowhere.
  std::string_view sleep_path = {};
  /// True if a shutdown stops accepting before it closes existing connections, which may still be
  /// served (Triton) or not (vLLM, llama.cpp): only a new connection shows the shutdown.
  bool closes_listener_first = false;
  bool serves_kserve_grpc = false;  ///< its gRPC port has inference.GRPCInferenceService
  /// A listed model "NAME" + this suffix may be requested as "NAME". Empty: no such suffix.
  std::string_view implied_model_tag = {};
  /// True if the list of models has LoRA adapters, each with its base model's name as `parent`.
  bool lists_adapters = false;
  std::chrono::milliseconds timeout{1'000};  ///< of a check, unless the file says
};

/// An engine that takes requests at `port` has its metrics at `metrics_port`, by convention.
struct MetricsPort {
  std::uint16_t port;
  std::uint16_t metrics_port;
};

/// Where an engine's Prometheus page is, and what is in it.
struct EngineMetricsPage {
  std::string_view path = {};  ///< empty: none
  /// A page with the wanted series only, which some versions render in a fraction of the time; the
  /// others answer with none of them. Empty: none.
  std::string_view short_path = {};
  std::span<const Series> series = {};
  bool any_series = false;  ///< `series` of all engines count: nothing is known of this one
  /// The server option that turns the page on, for people; empty: it is always on.
  std::string_view required_option = {};
  std::span<const MetricsPort> ports = {};
  bool separate_port = false;  ///< the page has a port of its own that only the file can tell
  /// True if a poll counts as work: it would wake a sleeping model, or keep it awake.
  bool prevents_sleep = false;
  /// A path that must not be polled: reading consumes its data. Empty: none.
  std::string_view consumed_path = {};
};

/// Which answers of an engine mean that it has not begun to generate, so that the request may be
/// sent to another server. docs/engines.md lists these.
struct EngineRefusals {
  /// True if the engine answers 429 and 503 before it begins a request, or not at all.
  bool overload = false;
  /// True if 500 and 502 at once mean an engine that is shutting down or dead, no wrong request.
  bool early_errors = false;
  /// What the body of a 500 has if the JSON of the request is wrong, which is not the server's
  /// fault; empty: the engine answers that with 4xx.
  std::string_view json_error = {};
};

struct Engine {
  std::string_view name;  ///< as the file has it
  /// What else it is called, in small letters without separators, with spaces between: a file with
  /// such a name gets the right one as a suggestion.
  std::string_view synonyms = {};
  EngineDetectionRules detection = {};
  EngineHealth health = {};
  EngineMetricsPage metrics = {};
  EngineRefusals refusals = {};
  /// How long an idle link is kept unless the file says: safely below the server's own timeout,
  /// since a request sent into a closing link is lost. vLLM, SGLang, trtllm-serve and all else that
  /// runs on uvicorn close after 5 s, llama.cpp's cpp-httplib too. Servers of which nothing is
  /// known count as uvicorn.
  std::chrono::milliseconds keep_alive_idle{4'000};
  /// True if every event of its OpenAI streams has `"usage":null`, whether or not usage was asked
  /// for. Those of other engines have it only if it was, or never.
  bool writes_null_usage = false;
  /// True if OpenAI streams end with their usage where `stream_options.include_usage` asks for it.
  bool gives_stream_usage = false;
};

/// A server of which nothing is known.
extern const Engine generic_engine;

/// All engines, in the order in which detection tries them.
std::span<const Engine* const> engines();

/// The engine with this name; `generic` if there is none.
const Engine& engine_named(std::string_view name);

/// The same, but that a `generic` server that implements KServe v2 has an entry of its own, which
/// no file names.
const Engine& engine_of_server(std::string_view name, bool is_kserve);

/// An engine as one byte, which threads can share; 0: `generic`, of which nothing is known.
std::uint8_t number_of(const Engine& engine);
const Engine& engine_numbered(std::uint8_t number);

/// The name by which a server may be asked for the model that it lists under this one.
std::string_view without_implied_tag(std::string_view model);

}  // namespace evenkeel
