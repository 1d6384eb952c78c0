// The parts of a worker that its plans use.
#pragma once

#include <memory>

#include "evenkeel/base/loop.h"
#include "evenkeel/base/overload.h"
#include "evenkeel/coding/window_budget.h"
#include "evenkeel/filter/access_log.h"
#include "evenkeel/filter/held_bodies.h"
#include "evenkeel/stats/worker_metrics.h"
#include "evenkeel/upstream/model_catalog.h"

namespace evenkeel {

class Plan;

/// Outlives the plans.
struct WorkerContext {
  Loop& loop;
  MetricsRegistry& metrics_registry;
  unsigned index;
  RequestRecorder& recorder;
  HeldBodies& held_bodies;
  const MemoryPressureLevel* memory_pressure = nullptr;  ///< null: there is never any
  /// The present catalog of models, which the worker replaces. Null: there is never any.
  const std::shared_ptr<const ModelCatalog>* models = nullptr;
  /// The plan of requests that begin now, which the worker replaces. Null: there is only one.
  const std::shared_ptr<Plan>* active = nullptr;
  WindowBudget* windows = nullptr;  ///< of the bodies that are read; null: there is no limit

  WorkerMetrics& metrics() const { return metrics_registry.worker_metrics(index); }
};

}  // namespace evenkeel
