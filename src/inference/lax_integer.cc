#include "inference/lax_integer.h"

#include <cmath>

#include "evenkeel/base/ascii.h"
#include "evenkeel/base/decimal.h"

namespace evenkeel {

std::optional<json::Number> lax_integer(std::string_view number) {
  constexpr double limit = 9223372036854775808.0;  // 2^63
  const auto value = parse_number<double>(number);
  if (!value || std::trunc(*value) != *value || std::abs(*value) >= limit) return std::nullopt;
  return json::Number{.negative = *value < 0,
                      .magnitude = static_cast<std::uint64_t>(std::abs(*value))};
}

std::optional<json::Number> lax_integer_in_text(std::string_view text) {
  text = trimmed(text, " \t\n\v\f\r");
  json::Number number{.negative = text.starts_with('-')};
  if (number.negative || text.starts_with('+')) text.remove_prefix(1);
  const std::size_t point = text.find('.');
  const std::string_view fraction = text.substr(std::min(point, text.size()));
  text.remove_suffix(fraction.size());
  const bool zeros = fraction.size() != 1 && fraction.find_first_not_of('0', 1) == text.npos;
  if (!zeros || text.empty()) return std::nullopt;

  bool digit_before = false;
  for (const char c : text) {
    if (is_digit(c)) json::add_digit(number, c);
    if (!is_digit(c) && (c != '_' || !digit_before)) return std::nullopt;
    digit_before = is_digit(c);
  }
  return digit_before ? std::optional(number) : std::nullopt;
}

}  // namespace evenkeel
