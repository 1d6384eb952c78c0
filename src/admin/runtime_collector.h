// The part of the page at /metrics that the workers' counters do not hold.
#pragma once

#include <string>

#include "admin/documents.h"
#include "evenkeel/admin/runtime_status.h"
#include "evenkeel/balance/backend.h"
#include "evenkeel/stats/render_metrics.h"

namespace evenkeel {

/// Reads atomics and published snapshots only: no worker waits for it. Thread: any.
class RuntimeCollector final : public Collector {
 public:
  explicit RuntimeCollector(const RuntimeAccess& runtime) : runtime_(runtime) {}
  MetricsSnapshot collect() override;

 private:
  BackendSnapshot collect(const RuntimeView& view, const std::string& pool,
                          const Backend& backend) const;

  const RuntimeAccess& runtime_;
};

}  // namespace evenkeel
