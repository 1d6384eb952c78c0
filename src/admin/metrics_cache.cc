#include "admin/metrics_cache.h"

#include <algorithm>

#include "admin/metrics.h"

namespace evenkeel {
namespace {

/// A page that takes less is rendered for every scrape.
constexpr Duration cheap = std::chrono::milliseconds(5);
constexpr Duration max_page_age = std::chrono::milliseconds(250);

Duration page_lifetime(Duration took) {
  return took < cheap ? Duration{} : std::min(max_page_age, 4 * took);
}

}  // namespace

CompressibleText& MetricsCache::page() {
  const Instant began = Clock::now();
  if (began >= fresh_until_) {
    page_ = CompressibleText(render_metrics(runtime_));
    const Instant rendered = Clock::now();
    fresh_until_ = rendered + page_lifetime(rendered - began);
  }
  return page_;
}

}  // namespace evenkeel
