// Finds out which engine one backend runs, for pools with `engine: auto`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "evenkeel/base/loop.h"
#include "evenkeel/base/rng.h"
#include "evenkeel/base/task.h"
#include "evenkeel/inference/engine_identity.h"
#include "evenkeel/upstream/backend_client.h"
#include "evenkeel/upstream/detector.h"
#include "evenkeel/upstream/health_record.h"

namespace evenkeel {

struct DetectionSpec {
  Duration interval{};       ///< between rounds of requests
  Duration timeout{};        ///< of one round
  bool may_be_grpc = false;  ///< the pool uses HTTP/2, so the server may speak gRPC alone
};

/// Asks a server in rounds once started, until its engine is known; then rests until the next
/// `start`. A server that shows no sign of any engine counts as generic and is asked again, at
/// longer and longer intervals: it may have been asked too early, or another server may have
/// answered in its place.
///
/// Thread: the loop's.
class EngineDetection {
 public:
  class Observer {
   public:
    /// True if the server serves, as far as is known. Rounds go on for a server that is down and
    /// shows nothing.
    virtual bool is_serving() const = 0;
    /// `identity()` has another engine or protocol. May not destroy the detection.
    virtual void on_engine_identified() = 0;
    /// A round brought no identity, for this reason.
    virtual void on_engine_unknown(std::string reason) = 0;

   protected:
    ~Observer() = default;
  };

  /// Does not start yet. `name`: for log lines, such as "pool chat: 10.0.0.1:8000".
  EngineDetection(Loop& loop, std::uint64_t seed, std::string name, DetectionSpec spec,
                  ServerAccess access, Observer& observer);
  EngineDetection(const EngineDetection&) = delete;
  EngineDetection& operator=(const EngineDetection&) = delete;
  ~EngineDetection() { task_.drop(); }

  /// Applies from the next round on. A round that is under way ends if the server is reached
  /// differently now; a new one starts unless the engine was known already.
  void update(DetectionSpec spec, ServerAccess access);
  /// Starts a round now, or after the one that is under way, even if the engine is known.
  void start();
  bool running() const { return task_.valid() && !task_.ready(); }

  /// Nothing if no round has ended with a result.
  const std::optional<EngineIdentity>& identity() const { return identity_; }
  const ModelList& models() const { return models_; }
  /// Rounds in which this process could not send a request, such as for want of a descriptor.
  std::uint64_t blocked_locally() const { return blocked_locally_; }
  /// Changes whenever `identity()` does.
  std::uint64_t revision() const { return revision_; }

 private:
  bool known() const { return identity_ && identity_->known(); }
  Task<void> run();
  Task<DetectionResult> run_round(BackendClient& client);
  bool accept_result(DetectionResult result, bool was_serving);
  void accept_identity(EngineIdentity identity);
  Duration next_delay(bool responded);

  Loop& loop_;
  Rng rng_;
  std::string name_;
  DetectionSpec spec_;
  ServerAccess access_;
  Observer& observer_;
  std::optional<EngineIdentity> identity_;
  ModelList models_;
  unsigned inconclusive_rounds_ = 0;  // in a row
  std::uint64_t blocked_locally_ = 0;
  std::uint64_t revision_ = 0;
  Duration delay_{};  // before the next round
  Signal wake_now_;
  Task<void> task_;
};

}  // namespace evenkeel
