#include "admin/metrics_cache.h"

#include <algorithm>

#include "admin/gzip.h"
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

SharedText MetricsCache::text() {
  render_if_stale();
  return text_;
}

SharedText MetricsCache::gzipped() {
  render_if_stale();
  if (gzipped_ == nullptr) {
    std::string compressed = gzip(*text_);
    if (!compressed.empty()) {
      gzipped_ = std::make_shared<const std::string>(std::move(compressed));
    }
  }
  return gzipped_;
}

void MetricsCache::render_if_stale() {
  const Instant began = Clock::now();
  if (text_ != nullptr && began < fresh_until_) return;
  text_ = std::make_shared<const std::string>(render_metrics(runtime_));
  gzipped_ = nullptr;
  const Instant rendered = Clock::now();
  fresh_until_ = rendered + page_lifetime(rendered - began);
}

}  // namespace evenkeel
