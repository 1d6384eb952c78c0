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
  return pages_[static_cast<std::size_t>(format)].get(
      [this, format] { return CompressibleText(render_metrics(runtime_, format)); }, page_lifetime);
}

}  // namespace evenkeel
