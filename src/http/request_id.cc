#include "evenkeel/http/request_id.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstdint>
#include <cstring>

#include "evenkeel/base/ascii.h"
#include "evenkeel/base/byte_vector.h"

namespace evenkeel {
namespace {

constexpr std::size_t max_request_id_length = 128;

/// The eight lower-case digits of a number, in the order of memory.
std::uint64_t hex_of(std::uint32_t number) {
  constexpr std::uint64_t each = 0x0101010101010101;
  std::uint64_t digits = number;  // one a byte from here on
  digits = (digits | digits << 16) & 0x0000ffff0000ffff;
  digits = (digits | digits << 8) & 0x00ff00ff00ff00ff;
  digits = (digits | digits << 4) & 0x0f0f0f0f0f0f0f0f;
  const std::uint64_t letters = (digits + each * 6) >> 4 & each;  // 1 for each above nine
  const std::uint64_t text = digits + each * '0' + letters * ('a' - '0' - 10);
  return std::endian::native == std::endian::little ? __builtin_bswap64(text) : text;
}

bool may_be_in_id(char c) { return is_letter_or_digit(c) || c == '-' || c == '_' || c == '.'; }

/// True if all sixteen bytes may be in an id. Each term is an unsigned number, which is large for
/// what is below its range.
bool may_be_in_id(ByteVector bytes) {
  const ByteVector letters = (bytes | 0x20) - 'a';
  const ByteVector digits = bytes - '0';
  const ByteVector dash_point = bytes - '-';
  return all_of((letters <= 'z' - 'a') | (digits <= 9) | (dash_point <= '.' - '-') |
                (bytes == '_'));
}

}  // namespace

bool is_valid_request_id(std::string_view id) {
  if (id.empty() || id.size() > max_request_id_length) return false;
  if (id.size() < sizeof(ByteVector))
    return std::all_of(id.begin(), id.end(), [](char c) { return may_be_in_id(c); });
  for (std::size_t at = 0; at + sizeof(ByteVector) < id.size(); at += sizeof(ByteVector)) {
    if (!may_be_in_id(load_bytes(id.data() + at))) return false;
  }
  return may_be_in_id(load_bytes(id.data() + id.size() - sizeof(ByteVector)));
}

RequestIdText make_request_id(Rng& rng) {
  const auto milliseconds =
      static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::milliseconds>(
                                     std::chrono::system_clock::now().time_since_epoch())
                                     .count());
  const std::uint64_t random = rng();
  const std::uint64_t high = milliseconds << 16 | 0x7000 | (random & 0xfff);
  const std::uint64_t low = (rng() >> 2) | 0x8000000000000000u;
  RequestIdText text;
  text[8] = text[13] = text[18] = text[23] = '-';
  const auto write = [&text](std::uint32_t number, std::size_t first, std::size_t second) {
    const std::uint64_t hex = hex_of(number);
    const auto half = reinterpret_cast<const char*>(&hex) + 4;
    std::memcpy(text.data() + first, &hex, 4);
    std::memcpy(text.data() + second, half, 4);
  };
  write(static_cast<std::uint32_t>(high >> 32), 0, 4);
  write(static_cast<std::uint32_t>(high), 9, 14);
  write(static_cast<std::uint32_t>(low >> 32), 19, 24);
  write(static_cast<std::uint32_t>(low), 28, 32);
  return text;
}

}  // namespace evenkeel
