#include "evenkeel/base/decimal.h"

#include <gtest/gtest.h>

#include <string>

namespace evenkeel {
namespace {

std::string text_of(std::uint64_t value) {
  std::string text(max_decimal_digits, '?');
  const char* const end = put_number(text.data(), value);
  text.resize(static_cast<std::size_t>(end - text.data()));
  return text;
}

TEST(Decimal, WritesEveryNumberWithoutLeadingZeros) {
  for (std::uint64_t value = 0; value < 20'000; ++value) {
    ASSERT_EQ(text_of(value), std::to_string(value));
  }
  for (std::uint64_t power = 10'000; power < 10'000'000'000'000'000'000u; power *= 10) {
    for (const std::uint64_t value : {power - 1, power, power + 1}) {
      ASSERT_EQ(text_of(value), std::to_string(value));
    }
  }
  EXPECT_EQ(text_of(~std::uint64_t{0}), "18446744073709551615");
}

TEST(Decimal, WritesPairsAndTriplesWithLeadingZeros) {
  for (unsigned value = 0; value < 1000; ++value) {
    char text[3];
    ASSERT_EQ(put_triple(text, value), text + 3);
    ASSERT_EQ(std::string(text, 3), std::to_string(1000 + value).substr(1));
    if (value >= 100) continue;
    ASSERT_EQ(put_pair(text, value), text + 2);
    ASSERT_EQ(std::string(text, 2), std::to_string(100 + value).substr(1));
  }
}

}  // namespace
}  // namespace evenkeel
