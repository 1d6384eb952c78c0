#include "evenkeel/stats/amount.h"

#include <array>
#include <charconv>

#include "evenkeel/base/ascii.h"
#include "evenkeel/base/decimal.h"

namespace evenkeel {
namespace {

constexpr int decimals = 12;

}  // namespace

Amount Amount::of_tokens(std::uint64_t tokens, std::uint64_t price) {
  // In halves, whose products fit.
  constexpr std::uint64_t half = 1'000'000;
  std::uint64_t low = 0;
  std::uint64_t high = 0;
  const bool fits = !__builtin_mul_overflow(tokens % half, price, &low) &&
                    !__builtin_mul_overflow(tokens / half, price, &high);
  if (!fits) return largest();
  return Amount(high / half, high % half * half) + of_parts(low);
}

Amount& Amount::operator+=(const Amount& other) {
  std::uint64_t parts = parts_ + other.parts_;
  const std::uint64_t carried = parts / parts_per_unit;
  parts %= parts_per_unit;
  std::uint64_t units = 0;
  const bool fits = !__builtin_add_overflow(units_, other.units_, &units) &&
                    !__builtin_add_overflow(units, carried, &units);
  return *this = fits ? Amount(units, parts) : largest();
}

std::uint64_t Amount::millionths() const {
  constexpr std::uint64_t million = 1'000'000;
  std::uint64_t count = 0;
  const bool fits = !__builtin_mul_overflow(units_, million, &count) &&
                    !__builtin_add_overflow(count, (parts_ + million - 1) / million, &count);
  return fits ? count : std::numeric_limits<std::uint64_t>::max();
}

std::optional<Amount> Amount::parse(std::string_view text) {
  int exponent = 0;
  if (const std::size_t e = text.find_first_of("eE"); e != text.npos) {
    std::string_view digits = text.substr(e + 1);
    if (digits.starts_with('+')) digits.remove_prefix(1);
    const auto read = parse_number<int>(digits);
    if (!read || *read < -100 || *read > 100) return std::nullopt;
    exponent = *read;
    text = text.substr(0, e);
  }
  const std::size_t point = text.find('.');
  std::string number(text.substr(0, point));
  int scale = decimals + exponent;  // zeros that are still to be appended
  if (point != text.npos) {
    const std::string_view fraction = text.substr(point + 1);
    number += fraction;
    scale -= static_cast<int>(fraction.size());
  }
  for (const char c : number) {
    if (!is_digit(c)) return std::nullopt;
  }
  if (number.empty()) return std::nullopt;
  if (scale >= 0) {
    number.append(static_cast<std::size_t>(scale), '0');
  } else {  // what is smaller than a part is cut
    const auto cut = static_cast<std::size_t>(-scale);
    number.resize(number.size() > cut ? number.size() - cut : 0);
  }
  if (number.size() < decimals) number.insert(0, decimals - number.size(), '0');
  const std::size_t units = number.size() - decimals;
  const auto whole = units == 0 ? std::optional<std::uint64_t>(0)
                                : parse_number<std::uint64_t>({number.data(), units});
  const auto rest = parse_number<std::uint64_t>({number.data() + units, decimals});
  if (!whole || !rest) return std::nullopt;
  return Amount(*whole, *rest);
}

char* Amount::put(char* at) const {
  at = put_number(at, units_);
  if (parts_ == 0) return at;
  *at = '.';
  std::uint64_t rest = parts_;
  for (int i = decimals; i > 0; --i) {
    at[i] = static_cast<char>('0' + rest % 10);
    rest /= 10;
  }
  at += decimals;
  while (*at == '0') --at;
  return at + 1;
}

std::string Amount::text() const {
  std::array<char, max_text> buffer;  // NOLINT(*-member-init)
  return {buffer.data(), put(buffer.data())};
}

}  // namespace evenkeel
