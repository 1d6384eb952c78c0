// What the sheets do not hold of the page at /metrics.
#pragma once

#include <string>

#include "evenkeel/admin/runtime_status.h"
#include "evenkeel/balance/backend.h"
#include "evenkeel/stats/render_metrics.h"

namespace evenkeel {

/// Reads atomics only: no worker waits for it. Thread: the control loop's.
class RuntimeCollector final : public Collector {
 public:
  explicit RuntimeCollector(const RuntimeAccess& runtime) : runtime_(runtime) {}
  MetricsSnapshot collect() override;

 private:
  BackendSnapshot collect(const std::string& pool, const Backend& backend) const;

  const RuntimeAccess& runtime_;
};

}  // namespace evenkeel
