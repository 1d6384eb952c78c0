// What the backend monitor knows of every backend, as values that any thread may read.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "evenkeel/inference/model_cards.h"
#include "evenkeel/upstream/health_record.h"
#include "evenkeel/upstream/poll_record.h"

namespace evenkeel {

/// What a server lists of its models, shared so that a copy is cheap. Null: unknown.
using ModelCards = std::shared_ptr<const std::vector<ModelCard>>;

struct BackendStatus {
  std::string pool;
  std::string backend;  ///< its id
  std::string engine;   ///< the file's; with `engine: auto` the detected one, "auto" until then
  ModelList models;     ///< the models that the server lists; null: unknown
  ModelCards cards;     ///< the same with what it says of each; null: not listed regularly
  /// Why the list is not read, or not all of it; empty: it is, or it is not listed regularly.
  std::string models_problem = {};
  /// True if the engine has an API of its own at /v1/models, as far as is known.
  bool has_own_models_api = false;
  HealthRecord health;
  std::optional<PollStatus> polled;  ///< nothing: its metrics are not polled
};

/// All backends at one moment. Immutable. Thread: any.
class MonitorSnapshot {
 public:
  using Entry = std::shared_ptr<const BackendStatus>;

  MonitorSnapshot() = default;
  /// REQUIRES: `backends` is sorted by pool, then by id; no entry is null.
  explicit MonitorSnapshot(std::vector<Entry> backends) : backends_(std::move(backends)) {}

  /// Null if no such backend is monitored. Valid as long as the snapshot.
  const BackendStatus* find(std::string_view pool, std::string_view backend) const;
  /// Sorted by pool, then by id.
  const std::vector<Entry>& backends() const { return backends_; }

 private:
  std::vector<Entry> backends_;
};

}  // namespace evenkeel
