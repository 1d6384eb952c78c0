// One health check of one backend: the requests that its engine supports, and what the responses
// mean.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "evenkeel/base/loop.h"
#include "evenkeel/base/task.h"
#include "evenkeel/inference/engine_health.h"
#include "evenkeel/upstream/backend_client.h"
#include "evenkeel/upstream/monitor_spec.h"
#include "upstream/check_outcome.h"

namespace evenkeel {

/// The settings of a backend's checks, and the connections that they use. Outlives its tasks.
///
/// Thread: the loop's.
class HealthProbe {
 public:
  HealthProbe(Loop& loop, HealthCheckSpec spec, ServerAccess access);

  /// Sends the requests of one check, until the first failure. `fresh`: over a new connection.
  /// `token`: each model must also generate a token, if the file says `model: generate`.
  Task<CheckOutcome> check(bool fresh, bool token);
  /// Makes each of the file's models generate a token, or the first that the server lists, whatever
  /// the file wants of checks.
  /// REQUIRES: can_generate().
  Task<CheckOutcome> generate();

  const HealthCheckSpec& spec() const { return spec_; }
  const ServerAccess& access() const { return access_; }
  bool wants_token() const;
  /// True if the engine is known, and a model is or can be listed, so that the server can be made
  /// to generate a token. Or its API is not known, but its checks cover models: then it may be
  /// tried, until it answers that it has no such path.
  bool can_generate() const;
  /// True if each check needs a new connection: one over an existing connection proves nothing.
  bool always_connects() const {
    return kind_ == HealthCheckKind::tcp || engine_.health.closes_listener_first;
  }
  /// True if an idle connection is kept for the next check.
  bool has_idle_link() const { return client_.has_idle_link(); }
  /// The last list of models; null: never listed.
  const ModelList& models() const { return models_; }

 private:
  Task<CheckOutcome> check_http_or_grpc();
  Task<CheckOutcome> check_http();
  Task<std::optional<CheckOutcome>> check_grpc_presence();
  Task<CheckOutcome> check_grpc();
  Task<CheckOutcome> check_health_endpoint();
  Task<CheckOutcome> check_models();
  Task<CheckOutcome> list_models();
  Task<CheckOutcome> check_model(std::string model);
  Task<CheckOutcome> check_awake();
  Task<CheckOutcome> check_token(std::vector<std::string> models);
  Task<Result<GrpcReply>> call(const char* method, std::string message);
  Task<CheckOutcome> call_grpc_health();
  Task<CheckOutcome> call_ready(std::string model);
  bool checks_models() const;
  bool may_speak_grpc() const;
  std::string health_path() const;
  Task<Result<Fetched>> get(std::string path);
  void note_models(std::vector<std::string> models);

  Loop& loop_;
  const HealthCheckSpec spec_;
  const Engine& engine_;
  const HealthCheckKind kind_;
  const ServerAccess access_;
  BackendClient client_;
  Instant deadline_{};                                            // of the running check
  LinkPool::LinkChoice link_choice_ = LinkPool::LinkChoice::any;  // of its first request
  bool may_sleep_ = true;     // the server has not shown yet that it has no sleep endpoint
  bool may_generate_ = true;  // nor that it has none that generates tokens
  bool speaks_grpc_ = false;  // and no HTTP/1.1, at the last check
  ModelList models_;
};

}  // namespace evenkeel
