// Amounts of money, exact.
#pragma once

#include <compare>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

namespace evenkeel {

/// An amount in the currency of the operator, as a whole number of 10^-12 of its unit: a token at
/// 0.6 for a million costs 600'000 of them. At the largest amount a sum stays there.
class Amount {
 public:
  static constexpr std::uint64_t parts_per_unit = 1'000'000'000'000;
  static constexpr std::size_t max_text = 20 + 1 + 12;  ///< in bytes

  Amount() = default;
  static Amount of_parts(std::uint64_t parts) {
    return Amount(parts / parts_per_unit, parts % parts_per_unit);
  }
  static Amount of_units(std::uint64_t units) { return {units, 0}; }
  static Amount of_millionths(std::uint64_t count) {
    constexpr std::uint64_t million = 1'000'000;
    return {count / million, count % million * million};
  }
  /// So many tokens at a price for a million, in millionths of the unit.
  static Amount of_tokens(std::uint64_t tokens, std::uint64_t price);
  /// Reads "12", "0.0006" or "6e-7", all of it. Nothing: it is none, is negative, or does not fit.
  static std::optional<Amount> parse(std::string_view text);

  Amount& operator+=(const Amount& other);
  friend Amount operator+(Amount one, const Amount& other) { return one += other; }
  auto operator<=>(const Amount&) const = default;

  /// Returns it in millionths of the unit, rounded up; the largest number where it does not fit.
  std::uint64_t millionths() const;

  /// Writes it as a decimal number without zeros at its end, and returns the end.
  char* put(char* at) const;
  std::string text() const;

 private:
  Amount(std::uint64_t units, std::uint64_t parts) : units_(units), parts_(parts) {}
  static Amount largest() {
    return {std::numeric_limits<std::uint64_t>::max(), parts_per_unit - 1};
  }

  std::uint64_t units_ = 0;
  std::uint64_t parts_ = 0;  // below `parts_per_unit`
};

}  // namespace evenkeel
