// The LoRA adapters that an engine has loaded, as far as is known.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>

namespace evenkeel {

/// Adapters as hashes of their names, the ones used last first: an engine that loads another one
/// drops the one that was not used for longest. Learned from requests that were sent to the engine
/// and from its reports, which come later.
///
/// Thread: one at a time. Allocates nothing.
class AdapterCache {
 public:
  static constexpr std::size_t capacity = 32;
  /// A report may not know of a request that was sent so many seconds before it.
  static constexpr double report_delay = 1;

  bool has(std::uint64_t adapter) const { return find(adapter) != end(); }
  /// How likely it is that another one takes the place of an adapter that will be asked for again
  /// soon, 0..1: none while there is room.
  double displaces(double now) const {
    if (size_ == 0 || size_ < limit_) return 0;
    return std::exp(std::min(0.0, entries_[size_ - 1].used_at - now) / soon);
  }
  /// A request for it is sent: the engine has it or loads it now.
  void used(std::uint64_t adapter, double now) {
    auto place = entries_.begin() + (find(adapter) - entries_.begin());
    if (place == end()) {
      if (size_ < limit_) {
        ++size_;
      } else {
        --place;
      }
    }
    std::rotate(entries_.begin(), place, place + 1);
    entries_.front() = {adapter, now};
  }
  /// The engine held these at that time, the last used first. It has room for `slots` adapters; 0:
  /// unknown, or it may hold any number.
  void reported(std::span<const std::uint64_t> held, std::size_t slots, double as_of) {
    limit_ = slots == 0 ? capacity : std::clamp(held.size(), std::min(slots, capacity), capacity);
    AdapterCache known;
    known.limit_ = limit_;
    const auto is_newer = [as_of](const Entry& each) {
      return each.used_at > as_of - report_delay;
    };
    std::for_each(begin(), end(), [&](const Entry& each) {
      if (is_newer(each)) known.append(each);
    });
    for (const std::uint64_t adapter : held) {
      const Place own = find(adapter);
      known.append({adapter, own != end() ? own->used_at : as_of - 2 * report_delay});
    }
    std::for_each(begin(), end(), [&](const Entry& each) {
      if (!is_newer(each)) known.append(each);
    });
    *this = known;
  }
  void clear() { size_ = 0; }

  struct Entry {
    std::uint64_t adapter = 0;
    double used_at = 0;
  };
  /// The last used first.
  std::span<const Entry> entries() const { return std::span(entries_).first(size_); }

 private:
  static constexpr double soon = 60;  // seconds

  using Place = std::array<Entry, capacity>::const_iterator;

  Place begin() const { return entries_.begin(); }
  Place end() const { return entries_.begin() + static_cast<std::ptrdiff_t>(size_); }
  Place find(std::uint64_t adapter) const {
    return std::find_if(begin(), end(),
                        [adapter](const Entry& each) { return each.adapter == adapter; });
  }
  void append(const Entry& entry) {
    if (size_ < limit_ && !has(entry.adapter)) entries_[size_++] = entry;
  }

  std::array<Entry, capacity> entries_{};
  std::size_t size_ = 0;
  std::size_t limit_ = capacity;
};

}  // namespace evenkeel
