// The page at /metrics, shared by everyone who asks for it at the same time.
#pragma once

#include "admin/compressible_text.h"
#include "evenkeel/admin/runtime_status.h"
#include "evenkeel/base/clock.h"

namespace evenkeel {

/// Renders the page, and keeps one that was expensive for a moment: scrapers in a loop cost at most
/// a fifth of a core. Thread: the management thread.
class MetricsCache {
 public:
  explicit MetricsCache(const RuntimeAccess& runtime) : runtime_(runtime) {}

  CompressibleText& page();

 private:
  const RuntimeAccess& runtime_;
  CompressibleText page_;
  Instant fresh_until_{};
};

}  // namespace evenkeel
