// Hexadecimal digits.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "evenkeel/base/byte_vector.h"

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

/// Writes the sixteen lower-case digits of a number, all at once; returns the end.
inline char* put_hex(char* at, std::uint64_t number) {
  if constexpr (std::endian::native == std::endian::little) number = __builtin_bswap64(number);
  ByteVector bytes{};
  std::memcpy(&bytes, &number, sizeof number);
  const ByteVector digits = __builtin_shufflevector(bytes >> 4, bytes & 15, 0, 16, 1, 17, 2, 18, 3,
                                                    19, 4, 20, 5, 21, 6, 22, 7, 23);
  const auto above_nine = reinterpret_cast<ByteVector>(digits > 9);
  const ByteVector text = digits + '0' + (above_nine & ('a' - '0' - 10));
  std::memcpy(at, &text, sizeof text);
  return at + sizeof text;
}

}  // namespace evenkeel
