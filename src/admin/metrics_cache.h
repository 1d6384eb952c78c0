// The page at /metrics, shared by everyone who asks for it at the same time.
#pragma once

#include <array>

#include "admin/cached.h"
#include "admin/compressible_text.h"
#include "evenkeel/admin/runtime_status.h"
#include "evenkeel/stats/metrics_page.h"

namespace evenkeel {

/// Renders the page, and keeps one that was expensive for a moment: scrapers in a loop cost at most
/// a fifth of a core per format. Thread: the management thread.
class MetricsCache {
 public:
  explicit MetricsCache(const RuntimeAccess& runtime) : runtime_(runtime) {}

  CompressibleText& page(MetricsFormat format);

 private:
  const RuntimeAccess& runtime_;
  std::array<Cached<CompressibleText>, metrics_format_count> pages_;
};

}  // namespace evenkeel
