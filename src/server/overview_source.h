// What the sheets do not hold of the page at /metrics.
#pragma once

#include <string>

#include "evenkeel/balance/backend.h"
#include "evenkeel/stats/exposition.h"
#include "server/overview.h"

namespace evenkeel {

/// Reads atomics only: no worker waits for it. Thread: the control loop's.
class OverviewSource final : public Source {
 public:
  explicit OverviewSource(const Overview& overview) : overview_(overview) {}
  Readings read() override;

 private:
  BackendReading read(const std::string& pool, const Backend& backend) const;

  const Overview& overview_;
};

}  // namespace evenkeel
