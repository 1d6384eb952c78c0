// The LoRA adapters that an engine has loaded, as far as is known.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace evenkeel {

/// Adapters as hashes of their names, the ones used last first. Learned from requests that were
/// sent to the engine and from its reports, which come later.
///
/// Thread: one at a time. Allocates nothing.
class AdapterCache {
 public:
  static constexpr std::size_t capacity = 32;
  /// Within so many seconds a report may not know of a request yet.
  static constexpr double report_delay = 5;

  bool has(std::uint64_t adapter) const {
    const auto end = entries_.begin() + size_;
    return std::find_if(entries_.begin(), end,
                        [adapter](const Entry& each) { return each.adapter == adapter; }) != end;
  }
  /// A request for it was sent: the engine has it or loads it now.
  void used(std::uint64_t adapter, double now) {
    const auto end = entries_.begin() + size_;
    auto place = std::find_if(entries_.begin(), end,
                              [adapter](const Entry& each) { return each.adapter == adapter; });
    if (place == end) {
      if (size_ < static_cast<std::ptrdiff_t>(capacity)) {
        ++size_;
      } else {
        --place;  // the one that was not used for longest
      }
    }
    std::rotate(entries_.begin(), place, place + 1);
    entries_.front() = {adapter, now};
  }
  /// The engine says that it holds these.
  void reported(std::span<const std::uint64_t> adapters, double now) {
    const auto end =
        std::remove_if(entries_.begin(), entries_.begin() + size_,
                       [now](const Entry& each) { return now - each.used_at > report_delay; });
    size_ = end - entries_.begin();
    for (const std::uint64_t adapter : adapters) {
      if (size_ == static_cast<std::ptrdiff_t>(capacity)) return;
      if (!has(adapter))
        entries_[static_cast<std::size_t>(size_++)] = {adapter, now - 2 * report_delay};
    }
  }
  void clear() { size_ = 0; }

 private:
  struct Entry {
    std::uint64_t adapter = 0;
    double used_at = 0;
  };
  std::array<Entry, capacity> entries_{};
  std::ptrdiff_t size_ = 0;
};

}  // namespace evenkeel
