// What the sheets do not hold of the page at /metrics.
#pragma once

#include "evenkeel/stats/exposition.h"
#include "server/overview.h"

namespace evenkeel {

/// Reads atomics only: no worker waits for it. Thread: the control loop's.
class OverviewSource final : public Source {
 public:
  explicit OverviewSource(const Overview& overview) : overview_(overview) {}
  Readings read() override;

 private:
  const Overview& overview_;
};

}  // namespace evenkeel
