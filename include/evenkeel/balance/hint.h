// All that a picker may know of a request.
#pragma once

#include <algorithm>
#include <array>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "evenkeel/base/clock.h"

namespace evenkeel {

class Backend;

/// The backends that a request has been sent to already. A small list without allocation: a request
/// that has tried `capacity` backends is not tried again.
class ExcludedBackends {
 public:
  static constexpr std::size_t capacity = 8;

  bool empty() const { return count_ == 0; }
  bool full() const { return count_ == capacity; }
  std::size_t size() const { return count_; }
  bool contains(const Backend* backend) const {
    return std::find(begin(), end(), backend) != end();
  }
  /// REQUIRES: !full().
  void add(const Backend* backend) {
    assert(!full());
    if (!contains(backend)) backends_[count_++] = backend;
  }

 private:
  const Backend* const* begin() const { return backends_.data(); }
  const Backend* const* end() const { return backends_.data() + count_; }

  std::array<const Backend*, capacity> backends_{};
  std::size_t count_ = 0;
};

/// What a request tells its picker.
struct Hint {
  std::optional<std::uint64_t> key;  ///< for consistent-hash: `hash_of` what shall stick together
  ExcludedBackends excluded;         ///< never picked again
  Instant now{};                     ///< set by Pool::place; others who call a Picker set it
};

}  // namespace evenkeel
