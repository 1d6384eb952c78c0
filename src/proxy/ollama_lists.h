// Answers GET /api/tags and /api/ps for several pools at once.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "evenkeel/base/loop.h"
#include "evenkeel/config/config.h"
#include "evenkeel/http/message.h"
#include "evenkeel/inference/ollama_list.h"
#include "evenkeel/stats/worker_metrics.h"
#include "proxy/model_reach.h"
#include "proxy/plan_pools.h"

namespace evenkeel {

/// Asks each pool that a client can reach for Ollama's list, and merges what they answer: models
/// that no route takes to their pool are left out, as in ModelDirectory. A pool that does not
/// answer within 2 s is left out.
///
/// Thread: one worker's. REQUIRES: the pools outlive it.
class OllamaLists final : public Handler {
 public:
  OllamaLists(const Config& config, const PlanPools& pools, Loop& loop,
              WorkerMetrics& worker_metrics)
      : config_(config), reach_(config), pools_(pools), loop_(loop), metrics_(worker_metrics) {}

  /// True for a GET or HEAD of one of the lists. Cheap for all other requests.
  static bool is_for(const Request& request);
  /// True if the answer to such a request is to be merged. `route`: which matches it.
  bool answers(const Request& request, std::optional<std::size_t> route) const;

  /// The merged list; what the last pool answered if none has one.
  Task<Result<Response>> handle(Request& request) override;

 private:
  /// What one pool answers: its list, or why there is none.
  struct List {
    std::optional<std::vector<OllamaEntry>> entries = {};
    Result<Response> failure = Error{.fault = Fault::no_backend};
  };

  ModelReach::Pools reached_by(const Request& request) const;
  Task<List> ask(const PlanPool& pool, Request& request) const;

  const Config& config_;
  const ModelReach reach_;
  const PlanPools& pools_;
  Loop& loop_;
  WorkerMetrics& metrics_;
};

}  // namespace evenkeel
