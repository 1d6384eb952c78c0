// Hexadecimal digits.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace evenkeel {

inline constexpr auto hex_values = [] {
  std::array<std::int8_t, 256> table{};
  table.fill(-1);
  for (std::size_t i = 0; i < 10; ++i) table['0' + i] = static_cast<std::int8_t>(i);
  for (std::size_t i = 10; i < 16; ++i) {
    table['a' + i - 10] = static_cast<std::int8_t>(i);
    table['A' + i - 10] = static_cast<std::int8_t>(i);
  }
  return table;
}();

/// The value of a hexadecimal digit of either case; -1 for any other character.
constexpr int hex_value(char c) { return hex_values[static_cast<unsigned char>(c)]; }

}  // namespace evenkeel
