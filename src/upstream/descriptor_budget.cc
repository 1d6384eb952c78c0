#include "upstream/descriptor_budget.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "evenkeel/base/descriptor_limit.h"
#include "evenkeel/base/log.h"

namespace evenkeel {
namespace {

constexpr Duration warning_interval = std::chrono::minutes(1);

std::uint64_t limit_or_max() {
  return descriptor_limit().value_or(std::numeric_limits<std::uint64_t>::max());
}

}  // namespace

bool DescriptorBudget::may_keep_links(std::size_t backends, std::size_t max_client_connections) {
  const std::uint64_t limit = limit_or_max();
  const std::size_t for_monitoring = 2 * backends;
  const std::size_t for_requests = std::max(backends, 2 * max_client_connections);
  const std::size_t need = for_monitoring + for_requests;
  if (need > limit && need != reported_need_) {
    log::limits.warning(fmt::format(
        "the limit of {} open descriptors may be too low: health checks and polls of {} backends "
        "take up to {}, every request takes two; raise it (ulimit -n, LimitNOFILE=)",
        limit, backends, for_monitoring));
  }
  reported_need_ = need;
  return for_monitoring <= limit / 4;
}

void DescriptorBudget::note_blocked(std::uint64_t blocked_locally, Instant now) {
  const bool more = blocked_locally > std::exchange(blocked_locally_, blocked_locally);
  if (!more || now < next_warning_) return;
  next_warning_ = now + warning_interval;
  log::limits.error(fmt::format(
      "cannot check backends: out of descriptors or memory; at most {} descriptors may be open",
      limit_or_max()));
}

}  // namespace evenkeel
