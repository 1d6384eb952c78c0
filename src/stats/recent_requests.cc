#include "evenkeel/stats/recent_requests.h"

namespace evenkeel {

RecentRequests::~RecentRequests() { delete slots_.load(std::memory_order_relaxed); }

void RecentRequests::record(const RecentRequest& request) {
  Slots* slots = slots_.load(std::memory_order_relaxed);
  if (slots == nullptr) [[unlikely]] {
    slots = std::make_unique<Slots>().release();
    // Release: a reader that sees the slots sees them constructed.
    slots_.store(slots, std::memory_order_release);
  }
  const std::size_t attempts =
      std::min<std::size_t>(request.attempt_count, RecentRequest::max_attempts);
  const std::size_t size = request.has_failed ? sizeof request
                                              : offsetof(RecentRequest, attempts) +
                                                    attempts * sizeof(RecentRequest::Attempt);
  const std::size_t used = (size + sizeof(std::uint64_t) - 1) / sizeof(std::uint64_t);
  (*slots)[next_].write(&request, used);
  next_ = (next_ + 1) % capacity;
}

void RecentRequests::append_to(std::vector<RecentRequest>& requests) const {
  const Slots* const slots = slots_.load(std::memory_order_acquire);
  if (slots == nullptr) return;
  for (const Slot& slot : *slots) {
    RecentRequest request;
    if (slot.read(&request)) requests.push_back(request);
  }
}

std::optional<RecentRequest> RecentRequests::find(std::string_view request_id) const {
  const Slots* const slots = slots_.load(std::memory_order_acquire);
  if (slots == nullptr) return std::nullopt;
  request_id = request_id.substr(0, RecentRequest::max_request_id);
  std::optional<RecentRequest> found;
  for (const Slot& slot : *slots) {
    RecentRequest request;
    if (!slot.read(&request) || request.request_id.view() != request_id) continue;
    if (!found || found->ended() < request.ended()) found = request;
  }
  return found;
}

}  // namespace evenkeel
