#include "upstream/health_probe.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "evenkeel/inference/engine_identity.h"
#include "evenkeel/inference/kserve_grpc.h"
#include "upstream/health_check_spec.h"

namespace evenkeel {
namespace {

constexpr const char* health_method = "grpc.health.v1.Health/Check";

/// True if the server knows no such path or method.
bool is_unsupported(int status) { return status == 404 || status == 405 || status == 501; }

std::string model_not_served(std::string_view model) {
  return fmt::format("the server does not serve model '{}'", model);
}

}  // namespace

HealthProbe::HealthProbe(Loop& loop, HealthCheckSpec spec, ServerAccess access)
    : loop_(loop),
      spec_(std::move(spec)),
      engine_(engine_of_server(spec_.engine, spec_.kserve)),
      kind_(resolved_check_kind(spec_)),
      access_(std::move(access)),
      client_(loop, health_check_access(access_, spec_, kind_)) {}

bool HealthProbe::wants_token() const {
  return kind_ == HealthCheckKind::http && spec_.config.model == ModelCheck::generate &&
         engine_.health.token != TokenProbe::none && !spec_.models.empty();
}

bool HealthProbe::can_generate() const {
  const bool is_known = engine_.health.check_by_default;
  return kind_ == HealthCheckKind::http && !speaks_grpc_ && spec_.config.port == 0 &&
         (is_known || (checks_models() && may_generate_)) &&
         engine_.health.token != TokenProbe::none &&
         (!spec_.models.empty() || engine_.health.listing == ModelListing::openai);
}

Task<CheckOutcome> HealthProbe::generate() {
  link_choice_ = LinkPool::LinkChoice::any;
  std::vector<std::string> models = spec_.models;
  if (models.empty()) {
    deadline_ = loop_.now() + spec_.config.timeout;
    auto listed = co_await list_models();
    if (!listed.passed()) co_return listed;
    if (models_ == nullptr) {
      co_return failed_check(CheckResult::model_missing, "the server lists no model");
    }
    models.push_back(models_->front());
  }
  auto generated = co_await check_token(std::move(models));
  co_return generated;
}

bool HealthProbe::checks_models() const {
  if (spec_.models.empty()) return false;
  return spec_.config.model != ModelCheck::off ||
         engine_.health.path.empty();  // no health endpoint: its models are what can be checked
}

Task<CheckOutcome> HealthProbe::check(bool fresh, bool token) {
  const Instant began = loop_.read_clock();
  deadline_ = began + spec_.config.timeout;
  link_choice_ = fresh ? LinkPool::LinkChoice::fresh : LinkPool::LinkChoice::any;
  if (kind_ == HealthCheckKind::tcp) {
    auto connected = co_await client_.connect(deadline_);
    if (!connected) co_return failed_check(connected.error(), "connect");
  } else if (kind_ == HealthCheckKind::grpc) {
    auto answered = co_await check_grpc();
    if (!answered.passed()) co_return answered;
  } else {
    auto answered = co_await check_http_or_grpc();
    if (!answered.passed() || answered.sleeping) co_return answered;
  }
  const Duration took = loop_.read_clock() - began;
  const Duration limit = spec_.config.latency;
  if (limit > Duration::zero() && took > limit) {
    co_return failed_check(CheckResult::slow,
                           fmt::format("the check took {:.3f} s; the limit is {:.3f} s",
                                       seconds_of(took), seconds_of(limit)));
  }
  // `latency` does not limit the time of a token, which depends on the model.
  if (!token || !wants_token() || speaks_grpc_) co_return CheckOutcome{};
  auto written = co_await check_token(spec_.models);
  co_return written;
}

// ---- over HTTP --------------------------------------------------------------------------------

/// True if the port may be that of an engine's gRPC server: the pool uses HTTP/2, and the file does
/// not say how to check.
bool HealthProbe::may_speak_grpc() const {
  return spec_.protocol == BackendProtocol::http2 && spec_.config.path.empty() &&
         spec_.config.check == HealthCheckKind::automatic;
}

Task<CheckOutcome> HealthProbe::check_http_or_grpc() {
  if (speaks_grpc_) {
    auto still = co_await check_grpc_presence();
    if (still) co_return std::move(*still);
    speaks_grpc_ = false;
  }
  auto answered = co_await check_http();
  if (answered.result != CheckResult::broken || !may_speak_grpc()) co_return answered;
  auto spoken = co_await check_grpc_presence();
  speaks_grpc_ = spoken.has_value();
  if (spoken) co_return std::move(*spoken);
  co_return answered;
}

Task<CheckOutcome> HealthProbe::check_http() {
  auto health = co_await check_health_endpoint();
  if (!health.passed()) {
    may_sleep_ = may_generate_ = true;  // after the failure, the server may be another one
    co_return health;
  }
  auto models = co_await check_models();
  if (!models.passed()) co_return models;
  auto awake = co_await check_awake();
  co_return awake;
}

/// The path to request; empty if the checks of the models make this one superfluous.
std::string HealthProbe::health_path() const {
  if (!spec_.config.path.empty()) return spec_.config.path;
  if (engine_.health.path_covers_all_models && checks_models()) return {};
  const bool by_default = spec_.config.check == HealthCheckKind::automatic;
  if (by_default && !engine_.health.check_by_default) return {};  // its models are checked instead
  return std::string(engine_.health.path);
}

/// Keeps the present list if it is equal, since snapshots share it.
void HealthProbe::note_models(std::vector<std::string> models) {
  if (models_ != nullptr && *models_ == models) return;
  models_ = models.empty() ? nullptr
                           : std::make_shared<const std::vector<std::string>>(std::move(models));
}

Task<Result<Fetched>> HealthProbe::get(std::string path) {
  const LinkPool::LinkChoice link_choice = std::exchange(link_choice_, LinkPool::LinkChoice::any);
  return client_.fetch({.path = std::move(path), .link_choice = link_choice}, deadline_);
}

Task<CheckOutcome> HealthProbe::check_health_endpoint() {
  const std::string path = health_path();
  if (path.empty()) co_return CheckOutcome{};
  const std::string what = "GET " + path;
  auto answer = co_await get(path);
  if (!answer) co_return failed_check(answer.error(), what);
  const bool empty = answer->status == 200 && answer->body == "{}";
  if (engine_.health.empty_object_means_loading && empty && path == engine_.health.path) {
    co_return outcome_of(Readiness::loading, what + ": nothing to serve yet");
  }
  co_return outcome_of(read_health(engine_, answer->status, answer->body),
                       describe_response(what, *answer));
}

Task<CheckOutcome> HealthProbe::check_models() {
  if (!checks_models()) co_return CheckOutcome{};
  if (engine_.health.listing == ModelListing::openai) {
    auto listed = co_await list_models();
    co_return listed;
  }
  for (const std::string& model : spec_.models) {
    auto answered = co_await check_model(model);
    if (!answered.passed()) co_return answered;
  }
  note_models(spec_.models);
  co_return CheckOutcome{};
}

Task<CheckOutcome> HealthProbe::list_models() {
  const std::string path = model_path(ModelListing::openai, {});
  const std::string what = "GET " + path;
  auto answer = co_await get(path);
  if (!answer) co_return failed_check(answer.error(), what);
  if (answer->status != 200) {
    co_return outcome_of(answer->status == 503 ? Readiness::not_ready : Readiness::failing,
                         describe_response(what, *answer));
  }
  auto listed = read_models(answer->body);
  if (!listed) co_return failed_check(CheckResult::error, what + ": not a list of models");
  const auto missing = std::ranges::find_if_not(
      spec_.models, [&](const std::string& model) { return lists_model(engine_, *listed, model); });
  if (listed->size() > max_models) listed->resize(max_models);
  note_models(std::move(*listed));
  if (missing != spec_.models.end()) {
    co_return failed_check(CheckResult::model_missing, model_not_served(*missing));
  }
  co_return CheckOutcome{};
}

Task<CheckOutcome> HealthProbe::check_model(std::string model) {
  const std::string path = model_path(engine_.health.listing, model);
  const std::string what = "GET " + path;
  auto answer = co_await get(path);
  if (!answer) co_return failed_check(answer.error(), what);
  const Readiness readiness = read_model(engine_.health.listing, answer->status, answer->body);
  co_return outcome_of(readiness, readiness == Readiness::model_missing
                                      ? model_not_served(model)
                                      : describe_response(what, *answer));
}

/// Asks whether the server sleeps. Only servers that can sleep have this endpoint.
Task<CheckOutcome> HealthProbe::check_awake() {
  if (engine_.health.sleep_path.empty() || !may_sleep_) co_return CheckOutcome{};
  const std::string what = "GET " + std::string(engine_.health.sleep_path);
  auto answer = co_await get(std::string(engine_.health.sleep_path));
  if (!answer) co_return failed_check(answer.error(), what);
  may_sleep_ = answer->status == 200;
  co_return CheckOutcome{.sleeping = reports_sleeping(answer->status, answer->body)};
}

Task<CheckOutcome> HealthProbe::check_token(std::vector<std::string> models) {
  const Duration patience = token_check_timeout(spec_);
  for (const std::string& model : models) {
    deadline_ = loop_.now() + patience;
    TokenProbeRequest request = token_probe_request(engine_.health.token, model);
    const std::string what = fmt::format("POST {} for '{}'", request.path, model);
    BackendClientRequest client_request{
        .method = "POST", .path = std::move(request.path), .json = std::move(request.body)};
    auto answer = co_await client_.fetch(std::move(client_request), deadline_);
    if (!answer) {
      auto failed = failed_check(answer.error(), what);
      // Responses of other models prove nothing about this one.
      const bool late = failed.result == CheckResult::timeout && models.size() > 1;
      if (late || failed.result == CheckResult::broken) failed.result = CheckResult::no_token;
      co_return failed;
    }
    may_generate_ = !is_unsupported(answer->status);
    if (!contains_token(engine_.health.token, answer->status, answer->body)) {
      co_return failed_check(CheckResult::no_token, describe_response(what, *answer));
    }
  }
  co_return CheckOutcome{};
}

// ---- over gRPC --------------------------------------------------------------------------------

Task<CheckOutcome> HealthProbe::check_grpc() {
  const bool by_model = spec_.config.model != ModelCheck::off && !spec_.models.empty();
  const bool of_kserve = engine_.health.serves_kserve_grpc &&
                         spec_.config.check != HealthCheckKind::grpc &&
                         spec_.config.service.empty();
  if (!of_kserve) {
    auto health = co_await call_grpc_health();
    if (!health.passed()) co_return health;
  } else if (!by_model) {
    auto ready = co_await call_ready({});
    co_return ready;
  }
  if (!by_model) co_return CheckOutcome{};
  for (const std::string& model : spec_.models) {
    auto ready = co_await call_ready(model);
    if (!ready.passed()) co_return ready;
  }
  note_models(spec_.models);
  co_return CheckOutcome{};
}

Task<Result<GrpcReply>> HealthProbe::call(const char* method, std::string message) {
  const LinkPool::LinkChoice link_choice = std::exchange(link_choice_, LinkPool::LinkChoice::any);
  return client_.call({.path = std::string("/") + method,
                       .message = std::move(message),
                       .link_choice = link_choice},
                      deadline_);
}

Task<CheckOutcome> HealthProbe::call_grpc_health() {
  auto reply = co_await call(health_method, encode_health_check_request(spec_.config.service));
  if (!reply) co_return failed_check(reply.error(), health_method);
  co_return outcome_of_grpc_health(*reply, health_method);
}

/// Checks an unknown gRPC server by its health service. Without that service, any gRPC reply counts
/// as passed. Empty if the server does not speak gRPC.
Task<std::optional<CheckOutcome>> HealthProbe::check_grpc_presence() {
  auto reply = co_await call(health_method, encode_health_check_request({}));
  if (!reply || !reply->grpc) co_return std::nullopt;
  if (reply->status == GrpcStatus::unimplemented) co_return CheckOutcome{};
  co_return outcome_of_grpc_health(*reply, health_method);
}

/// Whether a model is ready; the whole server if `model` is empty.
Task<CheckOutcome> HealthProbe::call_ready(std::string model) {
  const char* method = model.empty() ? "inference.GRPCInferenceService/ServerReady"
                                     : "inference.GRPCInferenceService/ModelReady";
  std::string message = model.empty() ? std::string() : encode(ModelId{.name = model});
  auto reply = co_await call(method, std::move(message));
  if (!reply) co_return failed_check(reply.error(), method);
  if (reply->status == GrpcStatus::not_found && !model.empty()) {
    co_return failed_check(CheckResult::model_missing, model_not_served(model));
  }
  if (reply->status != GrpcStatus::ok) co_return outcome_of(*reply, method);
  const auto ready = decode_readiness(reply->message);
  if (!ready)
    co_return failed_check(CheckResult::broken, std::string(method) + ": malformed message");
  if (*ready) co_return CheckOutcome{};
  co_return failed_check(CheckResult::not_ready,
                         model.empty() ? fmt::format("{}: not ready", method)
                                       : fmt::format("{} of model '{}': not ready", method, model));
}

}  // namespace evenkeel
