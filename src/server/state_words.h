// The words of a line of saved state.
#pragma once

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>

#include "evenkeel/base/clock.h"

namespace evenkeel {

/// Takes the words of one line in turn. After a word that is missing or malformed, `ok` is false.
class StateWords {
 public:
  static constexpr std::chrono::milliseconds max_duration = std::chrono::hours(24);

  explicit StateWords(std::string_view line) : rest_(line) {}

  std::string_view view() {
    const std::size_t space = rest_.find(' ');
    const std::string_view word = rest_.substr(0, space);
    rest_ = space == std::string_view::npos ? std::string_view() : rest_.substr(space + 1);
    ok_ = ok_ && !word.empty();
    return word;
  }
  std::string text() { return std::string(view()); }
  template <class T>
  T number(T min, T max, int base = 10) {
    const std::string_view word = view();
    T value{};
    const char* const end = word.data() + word.size();
    std::from_chars_result read{};
    if constexpr (std::is_integral_v<T>) {
      read = std::from_chars(word.data(), end, value, base);
    } else {
      read = std::from_chars(word.data(), end, value);
    }
    ok_ = ok_ && read.ec == std::errc() && read.ptr == end && value >= min && value <= max;
    return ok_ ? value : min;
  }
  /// A longer one is read as the longest.
  Duration duration() {
    const auto ms = number<std::int64_t>(0, std::numeric_limits<std::int64_t>::max());
    return std::min(std::chrono::milliseconds(ms), max_duration);
  }

  bool ok() const { return ok_; }
  /// Nothing is left, whether or not it was malformed.
  bool at_end() const { return rest_.empty(); }
  /// Nothing is left, and nothing was malformed.
  bool complete() const { return ok_ && rest_.empty(); }
  void reject() { ok_ = false; }

 private:
  std::string_view rest_;
  bool ok_ = true;
};

}  // namespace evenkeel
