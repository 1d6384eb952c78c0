#include "evenkeel/backend/backend_stats.h"

#include <memory>

namespace evenkeel {

/// Threads that count at once may lose each other's: these numbers are for people.
void BackendStats::count_client_error(int status) {
  constexpr auto relaxed = std::memory_order_relaxed;
  const bool goes_on = client_error_status_.load(relaxed) == status &&
                       client_errors_after_.load(relaxed) == responses_total();
  client_errors_.store(goes_on ? client_errors_.load(relaxed) + 1 : 1, relaxed);
  client_errors_after_.store(responses_total(), relaxed);
  client_error_status_.store(status, relaxed);
}

BackendStats::ClientErrors BackendStats::client_errors() const {
  constexpr auto relaxed = std::memory_order_relaxed;
  if (client_errors_after_.load(relaxed) != responses_total()) return {};
  return {.status = client_error_status_.load(relaxed), .in_a_row = client_errors_.load(relaxed)};
}

RecentResponses& BackendStats::make_recent() noexcept {
  auto made = std::make_unique<RecentResponses>();
  RecentResponses* seen = nullptr;
  // Release: another thread that sees the pointer sees the counts constructed.
  if (!recent_.compare_exchange_strong(seen, made.get(), std::memory_order_acq_rel)) return *seen;
  return *made.release();
}

RecentSummary BackendStats::recent_summary(Instant now) const {
  const RecentResponses* const made = recent_.load(std::memory_order_acquire);
  return made == nullptr ? RecentSummary{} : made->summary(now);
}

std::uint64_t BackendStats::errors_total() const {
  std::uint64_t sum = failed_responses_total();
  for (const auto& count : errors_) sum += count.load(std::memory_order_relaxed);
  return sum;
}

}  // namespace evenkeel
