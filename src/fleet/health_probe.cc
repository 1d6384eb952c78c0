#include "fleet/health_probe.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "evenkeel/inference/detect.h"
#include "evenkeel/inference/kserve_grpc.h"

namespace evenkeel {
namespace {

/// What a token may take where the timeout is shorter: it stands in line with everybody's.
constexpr Duration token_patience = std::chrono::seconds(10);

constexpr std::string_view kserve_engine = "kserve";  // as its preset is called

CheckOutcome outcome(CheckResult result, std::string reason, bool loading = false) {
  return {.result = result, .reason = std::move(reason), .loading = loading};
}

CheckOutcome failure(const Error& error, std::string_view what) {
  std::string reason = fmt::format("{}: {}", what, error.detail);
  if (error.side == Side::us) return {.result = std::nullopt, .reason = std::move(reason)};
  switch (error.fault) {
    case Fault::connect_failed:
      return outcome(CheckResult::refused,
                     error.detail.empty() ? "it has no address" : error.detail);
    case Fault::connect_timeout:
    case Fault::tls_failed: return outcome(CheckResult::unreachable, error.detail);
    case Fault::first_byte_timeout:
    case Fault::idle_timeout: return outcome(CheckResult::timeout, std::move(reason));
    default: return outcome(CheckResult::broken, std::move(reason));
  }
}

/// The first line of what a server said, if it is text for people: neither log nor terminal may
/// find anything to obey in it.
std::string excerpt(const std::string& said) {
  constexpr std::size_t most = 120;
  std::string line = said.substr(0, std::min(said.find_first_of("\r\n"), most));
  for (std::size_t i = 0; i < line.size(); ++i) {
    const auto byte = static_cast<unsigned char>(line[i]);
    const auto next = static_cast<unsigned char>(i + 1 < line.size() ? line[i + 1] : 0);
    const bool control = byte < 0x20 || byte == 0x7f || (byte == 0xc2 && next < 0xa0);
    if (control) return {};
  }
  return line;
}

std::string answer_of(std::string_view what, const Fetched& fetched) {
  const std::string said = excerpt(fetched.body);
  return said.empty() ? fmt::format("{}: {}", what, fetched.status)
                      : fmt::format("{}: {} {}", what, fetched.status, said);
}

CheckOutcome judge(Readiness readiness, std::string reason) {
  switch (readiness) {
    case Readiness::ready: return {};
    case Readiness::loading: return outcome(CheckResult::not_ready, std::move(reason), true);
    case Readiness::unready: return outcome(CheckResult::not_ready, std::move(reason));
    case Readiness::absent: return outcome(CheckResult::model_missing, std::move(reason));
    case Readiness::failing: break;
  }
  return outcome(CheckResult::error, std::move(reason));
}

std::string not_served(std::string_view model) {
  return fmt::format("it does not serve the model '{}'", model);
}

/// What a call's status says where it did not succeed.
CheckOutcome judge(const GrpcReply& reply, std::string_view method) {
  const std::string said = excerpt(reply.text);
  const std::string reason = fmt::format("{}: gRPC status {}{}{}", method, digits_of(reply.status),
                                         said.empty() ? "" : " ", said);
  return outcome(
      reply.status == GrpcStatus::unavailable ? CheckResult::not_ready : CheckResult::error,
      reason);
}

/// What grpc.health.v1 answers.
CheckOutcome judge_health(const GrpcReply& reply, const std::string& method) {
  if (reply.status != GrpcStatus::ok) return judge(reply, method);
  const auto status = decode_health_check_response(reply.message);
  if (!status) return outcome(CheckResult::broken, method + ": no such message");
  if (*status == ServingStatus::serving) return {};
  if (*status == ServingStatus::not_serving) {
    return outcome(CheckResult::not_ready, method + ": NOT_SERVING");
  }
  return outcome(CheckResult::error, method + ": neither SERVING nor NOT_SERVING");
}

/// Where the checks go, and in what: not what traffic is spoken in where that is still to be found
/// out, for which a check has no time.
ServerAccess as_asked(ServerAccess access, const HealthQuestion& question, HealthCheckKind kind) {
  if (question.config.port != 0) {
    for (Endpoint& address : access.addresses) address.set_port(question.config.port);
    const std::size_t colon = access.authority.rfind(':');
    access.authority =
        fmt::format("{}:{}", access.authority.substr(0, colon), question.config.port);
  }
  LinkPoolOptions& links = access.links;
  const Duration patience = std::max<Duration>(question.config.timeout, token_patience);
  links.link = {.first_byte_timeout = patience, .idle_timeout = patience};
  links.connector.connect_timeout = question.config.timeout;
  links.max_idle = 1;
  if (kind == HealthCheckKind::grpc) {
    links.protocol = BackendProtocol::http2;
    links.connector.alpn = AlpnOffer::http2;
  } else if (links.protocol == BackendProtocol::automatic && links.connector.tls == nullptr) {
    links.protocol = BackendProtocol::http1;
  }
  return access;
}

const EnginePreset& preset_for(const HealthQuestion& question) {
  const bool by_protocol = question.kserve && question.engine == "generic";
  return preset_of(by_protocol ? kserve_engine : std::string_view(question.engine));
}

}  // namespace

HealthCheckKind kind_of(const HealthQuestion& question) {
  const HealthConfig& config = question.config;
  const EnginePreset& preset = preset_for(question);
  const bool nothing_to_ask = config.path.empty() && preset.path.empty() && question.models.empty();
  const HealthCheckKind http = nothing_to_ask ? HealthCheckKind::tcp : HealthCheckKind::http;
  if (config.check == HealthCheckKind::http) return http;
  if (config.check != HealthCheckKind::automatic) return config.check;
  if (!config.path.empty()) return http;
  if (!config.service.empty()) return HealthCheckKind::grpc;
  if (question.engine == "auto") return HealthCheckKind::off;  // not known yet
  if (preset.kserve_calls && question.protocol == BackendProtocol::http2) {
    return HealthCheckKind::grpc;
  }
  if (preset.engine != "generic") return http;
  const bool models = config.model != ModelCheck::off && !question.models.empty();
  if (models) return http;
  return question.detected ? HealthCheckKind::tcp : HealthCheckKind::off;
}

HealthProbe::HealthProbe(Loop& loop, HealthQuestion question, ServerAccess access)
    : loop_(loop),
      question_(std::move(question)),
      preset_(preset_for(question_)),
      kind_(kind_of(question_)),
      access_(std::move(access)),
      inquirer_(loop, as_asked(access_, question_, kind_)) {}

bool HealthProbe::wants_token() const {
  return kind_ == HealthCheckKind::http && question_.config.model == ModelCheck::generate &&
         preset_.token != TokenQuestion::none && !question_.models.empty();
}

bool HealthProbe::asks_models() const {
  if (question_.models.empty()) return false;
  return question_.config.model != ModelCheck::off ||
         preset_.listing == ModelListing::tfserving;  // which has no health but that
}

Task<CheckOutcome> HealthProbe::check(bool fresh, bool token) {
  const Instant began = loop_.read_clock();
  deadline_ = began + question_.config.timeout;
  want_ = fresh ? LinkPool::Want::fresh : LinkPool::Want::any;
  if (kind_ == HealthCheckKind::tcp) {
    auto connected = co_await inquirer_.connect(deadline_);
    if (!connected) co_return failure(connected.error(), "connect");
  } else if (kind_ == HealthCheckKind::grpc) {
    auto answered = co_await check_calls();
    if (!answered.passed()) co_return answered;
  } else {
    auto answered = co_await check_answers();
    if (!answered.passed()) co_return answered;
  }
  const Duration took = loop_.read_clock() - began;
  const Duration limit = question_.config.latency;
  if (limit > Duration::zero() && took > limit) {
    co_return outcome(CheckResult::slow, fmt::format("the check took {:.3f} s, its limit is {:.3f}",
                                                     seconds_of(took), seconds_of(limit)));
  }
  // A token takes what the model takes: of its time `latency` says nothing.
  if (!token || !wants_token() || speaks_grpc_) co_return CheckOutcome{};
  auto written = co_await ask_token();
  co_return written;
}

// ---- over HTTP --------------------------------------------------------------------------------

/// Where a pool speaks HTTP/2, and nobody says how to ask, an engine's gRPC server may listen
/// instead of that of its HTTP.
bool HealthProbe::may_speak_grpc() const {
  return question_.protocol == BackendProtocol::http2 && question_.config.path.empty() &&
         question_.config.check == HealthCheckKind::automatic;
}

Task<CheckOutcome> HealthProbe::check_answers() {
  if (speaks_grpc_) {
    auto still = co_await check_speech();
    if (still) co_return std::move(*still);
    speaks_grpc_ = false;
  }
  auto answered = co_await check_http();
  if (answered.result != CheckResult::broken || !may_speak_grpc()) co_return answered;
  auto spoken = co_await check_speech();
  speaks_grpc_ = spoken.has_value();
  if (spoken) co_return std::move(*spoken);
  co_return answered;
}

Task<CheckOutcome> HealthProbe::check_http() {
  auto health = co_await ask_health();
  if (!health.passed()) {
    may_sleep_ = true;  // who comes back may be another
    co_return health;
  }
  auto models = co_await ask_models();
  if (!models.passed()) co_return models;
  auto awake = co_await ask_sleep();
  co_return awake;
}

/// Empty: what follows says more.
std::string HealthProbe::health_path() const {
  if (!question_.config.path.empty()) return question_.config.path;
  if (preset_.path_is_of_all_models && asks_models()) return {};
  const bool nobody_said_http = question_.config.check == HealthCheckKind::automatic;
  if (preset_.engine == "generic" && nobody_said_http) return {};  // its models are asked for
  return std::string(preset_.path);
}

Task<Result<Fetched>> HealthProbe::get(std::string path) {
  const LinkPool::Want want = std::exchange(want_, LinkPool::Want::any);
  return inquirer_.ask({.path = std::move(path), .want = want}, deadline_);
}

Task<CheckOutcome> HealthProbe::ask_health() {
  const std::string path = health_path();
  if (path.empty()) co_return CheckOutcome{};
  const std::string what = "GET " + path;
  auto answer = co_await get(path);
  if (!answer) co_return failure(answer.error(), what);
  const bool empty = answer->status == 200 && answer->body == "{}";
  if (preset_.empty_is_loading && empty && path == preset_.path) {
    co_return judge(Readiness::loading, what + ": nothing to serve yet");
  }
  co_return judge(read_health(preset_.engine, answer->status, answer->body),
                  answer_of(what, *answer));
}

Task<CheckOutcome> HealthProbe::ask_models() {
  if (!asks_models()) co_return CheckOutcome{};
  if (preset_.listing == ModelListing::openai) {
    auto listed = co_await list_models();
    co_return listed;
  }
  for (const std::string& model : question_.models) {
    auto answered = co_await ask_model(model);
    if (!answered.passed()) co_return answered;
  }
  models_ = question_.models;
  co_return CheckOutcome{};
}

Task<CheckOutcome> HealthProbe::list_models() {
  const std::string path = model_path(ModelListing::openai, {});
  const std::string what = "GET " + path;
  auto answer = co_await get(path);
  if (!answer) co_return failure(answer.error(), what);
  if (answer->status != 200) {
    co_return judge(answer->status == 503 ? Readiness::unready : Readiness::failing,
                    answer_of(what, *answer));
  }
  auto listed = read_models(answer->body);
  if (!listed) co_return outcome(CheckResult::error, what + ": no list of models");
  models_.assign(listed->begin(), listed->begin() + static_cast<std::ptrdiff_t>(
                                                        std::min(listed->size(), most_models)));
  for (const std::string& model : question_.models) {
    if (!serves(preset_.engine, *listed, model)) {
      co_return outcome(CheckResult::model_missing, not_served(model));
    }
  }
  co_return CheckOutcome{};
}

Task<CheckOutcome> HealthProbe::ask_model(std::string model) {
  const std::string path = model_path(preset_.listing, model);
  const std::string what = "GET " + path;
  auto answer = co_await get(path);
  if (!answer) co_return failure(answer.error(), what);
  const Readiness readiness = read_model(preset_.listing, answer->status, answer->body);
  co_return judge(readiness,
                  readiness == Readiness::absent ? not_served(model) : answer_of(what, *answer));
}

/// Only servers that can be sent to sleep know the question.
Task<CheckOutcome> HealthProbe::ask_sleep() {
  if (preset_.sleep_path.empty() || !may_sleep_) co_return CheckOutcome{};
  const std::string what = "GET " + std::string(preset_.sleep_path);
  auto answer = co_await get(std::string(preset_.sleep_path));
  if (!answer) co_return failure(answer.error(), what);
  may_sleep_ = answer->status == 200;
  if (!says_sleeping(answer->status, answer->body)) co_return CheckOutcome{};
  co_return outcome(CheckResult::not_ready, "it sleeps: whatever it is sent waits");
}

Task<CheckOutcome> HealthProbe::ask_token() {
  const Duration patience = std::max<Duration>(question_.config.timeout, token_patience);
  for (const std::string& model : question_.models) {
    deadline_ = loop_.now() + patience;
    TokenRequest request = token_request(preset_.token, model);
    const std::string what = fmt::format("POST {} for '{}'", request.path, model);
    Inquiry inquiry{
        .method = "POST", .path = std::move(request.path), .json = std::move(request.body)};
    auto answer = co_await inquirer_.ask(std::move(inquiry), deadline_);
    if (!answer) {
      auto failed = failure(answer.error(), what);
      // That it answers others meanwhile says nothing of this one of several models.
      const bool late = failed.result == CheckResult::timeout && question_.models.size() > 1;
      if (late || failed.result == CheckResult::broken) failed.result = CheckResult::no_token;
      co_return failed;
    }
    if (!holds_token(preset_.token, answer->status, answer->body)) {
      co_return outcome(CheckResult::no_token, answer_of(what, *answer));
    }
  }
  co_return CheckOutcome{};
}

// ---- over gRPC --------------------------------------------------------------------------------

Task<CheckOutcome> HealthProbe::check_calls() {
  const bool by_model = question_.config.model != ModelCheck::off && !question_.models.empty();
  const bool of_kserve = preset_.kserve_calls && question_.config.check != HealthCheckKind::grpc &&
                         question_.config.service.empty();
  if (!of_kserve) {
    auto health = co_await call_health();
    if (!health.passed()) co_return health;
  } else if (!by_model) {
    auto ready = co_await call_ready({});
    co_return ready;
  }
  if (!by_model) co_return CheckOutcome{};
  for (const std::string& model : question_.models) {
    auto ready = co_await call_ready(model);
    if (!ready.passed()) co_return ready;
  }
  models_ = question_.models;
  co_return CheckOutcome{};
}

Task<CheckOutcome> HealthProbe::call_health() {
  constexpr const char* method = "grpc.health.v1.Health/Check";
  GrpcCall call{.path = std::string("/") + method,
                .message = encode_health_check_request(question_.config.service),
                .want = std::exchange(want_, LinkPool::Want::any)};
  auto reply = co_await inquirer_.call(std::move(call), deadline_);
  if (!reply) co_return failure(reply.error(), method);
  co_return judge_health(*reply, method);
}

/// Of a gRPC server of which no more is known: what it says of its health, if it says anything.
/// That it answers is enough where it does not. Nothing: it speaks no gRPC.
Task<std::optional<CheckOutcome>> HealthProbe::check_speech() {
  constexpr const char* method = "grpc.health.v1.Health/Check";
  GrpcCall call{.path = std::string("/") + method,
                .message = encode_health_check_request({}),
                .want = std::exchange(want_, LinkPool::Want::any)};
  auto reply = co_await inquirer_.call(std::move(call), deadline_);
  if (!reply || !reply->grpc) co_return std::nullopt;
  if (reply->status == GrpcStatus::unimplemented) co_return CheckOutcome{};
  co_return judge_health(*reply, method);
}

/// Of the server, or of one model.
Task<CheckOutcome> HealthProbe::call_ready(std::string model) {
  const char* method = model.empty() ? "inference.GRPCInferenceService/ServerReady"
                                     : "inference.GRPCInferenceService/ModelReady";
  GrpcCall call{.path = std::string("/") + method,
                .message = model.empty() ? std::string() : encode(ModelId{.name = model}),
                .want = std::exchange(want_, LinkPool::Want::any)};
  auto reply = co_await inquirer_.call(std::move(call), deadline_);
  if (!reply) co_return failure(reply.error(), method);
  if (reply->status == GrpcStatus::not_found && !model.empty()) {
    co_return outcome(CheckResult::model_missing, not_served(model));
  }
  if (reply->status != GrpcStatus::ok) co_return judge(*reply, method);
  const auto ready = decode_readiness(reply->message);
  if (!ready) co_return outcome(CheckResult::broken, std::string(method) + ": no such message");
  if (*ready) co_return CheckOutcome{};
  co_return outcome(CheckResult::not_ready,
                    model.empty() ? fmt::format("{}: not ready", method)
                                  : fmt::format("{} of '{}': not ready", method, model));
}

}  // namespace evenkeel
