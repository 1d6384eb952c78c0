// The page at /metrics, shared by everyone who asks for it at the same time.
#pragma once

#include "admin/message.h"
#include "evenkeel/admin/runtime_status.h"
#include "evenkeel/base/clock.h"

namespace evenkeel {

/// Renders the page, and keeps one that was expensive for a moment: scrapers in a loop cost at most
/// a fifth of a core. Thread: the management thread.
class MetricsCache {
 public:
  explicit MetricsCache(const RuntimeAccess& runtime) : runtime_(runtime) {}

  SharedText text();
  /// The same, compressed; null where that fails.
  SharedText gzipped();

 private:
  void render_if_stale();

  const RuntimeAccess& runtime_;
  SharedText text_;
  SharedText gzipped_;  // null until it is first asked for
  Instant fresh_until_{};
};

}  // namespace evenkeel
