// One check of one backend: the questions that its engine understands, and what the answers mean.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "evenkeel/base/loop.h"
#include "evenkeel/base/task.h"
#include "evenkeel/inference/engine_health.h"
#include "evenkeel/upstream/backend_client.h"
#include "evenkeel/upstream/health_checker.h"

namespace evenkeel {

/// What came of a check.
struct CheckOutcome {
  /// Nothing: it could not be made, for want of something that is ours.
  std::optional<CheckResult> result = CheckResult::passed;
  std::string reason;    ///< why it did not pass, for people
  bool loading = false;  ///< not ready yet, as it says itself

  bool passed() const { return result == CheckResult::passed; }
};

/// The settings of a backend's checks, and the connections over which they are made.
///
/// Thread: the loop's. REQUIRES: outlives its tasks.
class HealthProbe {
 public:
  HealthProbe(Loop& loop, HealthCheckSpec spec, ServerAccess access);

  /// Asks one thing after another, and none after the first that speaks against it. `fresh`: over a
  /// new connection. `token`: it must also write one, where the file wants that.
  Task<CheckOutcome> check(bool fresh, bool token);

  const HealthCheckSpec& spec() const { return spec_; }
  const ServerAccess& access() const { return access_; }
  bool wants_token() const;
  /// A check says nothing over a connection that is there already.
  bool always_connects() const {
    return kind_ == HealthCheckKind::tcp || engine_.health.closes_listener_first;
  }
  /// There is a connection for the next check.
  bool has_idle_link() const { return client_.has_idle_link(); }
  /// As listed when it was last asked.
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
  Task<CheckOutcome> check_token();
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
  Instant deadline_{};                                            // of the check under way
  LinkPool::LinkChoice link_choice_ = LinkPool::LinkChoice::any;  // of its first question
  bool may_sleep_ = true;     // it has not said yet that it knows nothing of sleep
  bool speaks_grpc_ = false;  // and nothing else, when it was last asked
  ModelList models_;
};

}  // namespace evenkeel
