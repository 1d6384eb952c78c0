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
  const auto* const bytes = reinterpret_cast<const char*>(&request);
  Slot& slot = (*slots)[next_];
  next_ = (next_ + 1) % capacity;
  const std::uint64_t version = slot.version.load(std::memory_order_relaxed);
  // The words are written after a reader can see that they change, and before it can see that they
  // do not any more. (H.-J. Boehm: Can seqlocks get along with programming language memory models?)
  slot.version.store(version + 1, std::memory_order_relaxed);
#pragma GCC unroll 8
  for (std::size_t i = 0; i < used; ++i) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes + i * sizeof word, sizeof word);
    slot.copy[i].store(word, std::memory_order_release);
  }
  slot.version.store(version + 2, std::memory_order_release);
}

bool RecentRequests::read(const Slot& slot, RecentRequest& request) {
  const std::uint64_t before = slot.version.load(std::memory_order_acquire);
  if (before == 0 || before % 2 != 0) return false;
  std::array<std::uint64_t, words> copy;
  for (std::size_t i = 0; i < words; ++i) copy[i] = slot.copy[i].load(std::memory_order_acquire);
  if (slot.version.load(std::memory_order_relaxed) != before) return false;
  std::memcpy(static_cast<void*>(&request), copy.data(), sizeof request);
  return true;
}

void RecentRequests::append_to(std::vector<RecentRequest>& requests) const {
  const Slots* const slots = slots_.load(std::memory_order_acquire);
  if (slots == nullptr) return;
  for (const Slot& slot : *slots) {
    RecentRequest request;
    if (read(slot, request)) requests.push_back(request);
  }
}

std::optional<RecentRequest> RecentRequests::find(std::string_view request_id) const {
  const Slots* const slots = slots_.load(std::memory_order_acquire);
  if (slots == nullptr) return std::nullopt;
  request_id = request_id.substr(0, RecentRequest::max_request_id);
  std::optional<RecentRequest> found;
  for (const Slot& slot : *slots) {
    RecentRequest request;
    if (!read(slot, request) || request.request_id.view() != request_id) continue;
    if (!found || found->ended() < request.ended()) found = request;
  }
  return found;
}

}  // namespace evenkeel
