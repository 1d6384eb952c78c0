#include "admin/metrics_cache.h"

#include <algorithm>
#include <cstddef>

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

CompressibleText& MetricsCache::page(MetricsFormat format) {
  Page& page = pages_[static_cast<std::size_t>(format)];
  const Instant began = Clock::now();
  if (began >= page.fresh_until) {
    page.text = CompressibleText(render_metrics(runtime_, format));
    const Instant rendered = Clock::now();
    page.fresh_until = rendered + page_lifetime(rendered - began);
  }
  return page.text;
}

}  // namespace evenkeel
