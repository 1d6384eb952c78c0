#include "picker/common_prefixes.h"

#include <algorithm>
#include <bit>

#include "evenkeel/base/rng.h"

namespace evenkeel {
namespace {

// A share of one backend's is seen in about 32 requests of a window: it is known to about a sixth.
constexpr std::size_t min_window = 1024;
constexpr std::size_t requests_per_backend = 32;
// Twice as many entries as there can be blocks above the limit, which leaves room for the others.
constexpr std::size_t min_entries = 512;
constexpr std::size_t entries_per_backend = 2;
// Fewer requests than these make no block common: the first one would be in all of one.
constexpr float least_requests = 16;
constexpr float share_to_stay = 0.75F;
constexpr float largest_increment = 0x1p64F;

}  // namespace

CommonPrefixes::CommonPrefixes(std::size_t backends) {
  const std::size_t entries = std::max(min_entries, entries_per_backend * backends);
  sets_.resize(std::bit_ceil(entries / Set{}.entries.size()));
  shift_ = 64 - static_cast<unsigned>(std::countr_zero(sets_.size()));
  const std::size_t window = std::max(min_window, requests_per_backend * backends);
  growth_ = 1 + 1 / static_cast<float>(window);
}

void CommonPrefixes::begin_request() {
  increment_ *= growth_;
  if (increment_ > largest_increment) [[unlikely]]
    scale_down();
  total_ += increment_;
}

bool CommonPrefixes::count(std::uint64_t block, double limit) {
  Set& set = sets_[mix(block) >> shift_];
  Entry* entry = set.entries.data();
  for (Entry& each : set.entries) {
    if (each.block == block && each.count > 0) {
      entry = &each;
      break;
    }
    if (each.count < entry->count) entry = &each;
  }
  if (entry->block != block || entry->count == 0) *entry = {.block = block};
  entry->count += increment_;
  const float least = static_cast<float>(limit) * total_ * (entry->common ? share_to_stay : 1);
  entry->common = entry->count > least && entry->count >= least_requests * increment_;
  return entry->common;
}

void CommonPrefixes::scale_down() {
  for (Set& set : sets_) {
    for (Entry& entry : set.entries) entry.count /= largest_increment;
  }
  increment_ /= largest_increment;
  total_ /= largest_increment;
}

}  // namespace evenkeel
