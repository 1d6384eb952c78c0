#include "evenkeel/http/request_id.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>

#include "evenkeel/base/byte_vector.h"

namespace evenkeel {
namespace {

constexpr std::size_t max_request_id_length = 128;

/// "00" to "ff".
constexpr auto hex_pairs = [] {
  constexpr char digits[] = "0123456789abcdef";
  std::array<char, 512> pairs{};
  for (unsigned i = 0; i < 256; ++i) {
    pairs[i * 2] = digits[i >> 4];
    pairs[i * 2 + 1] = digits[i & 15];
  }
  return pairs;
}();

bool may_be_in_id(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' ||
         c == '_' || c == '.';
}

/// All sixteen. Each term is an unsigned number, which is large for what is below its range.
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
  char* at = text.data();
  const auto write_bytes = [&at](std::uint64_t word, int first, int last) {
    for (int i = first; i < last; ++i, at += 2) {
      std::memcpy(at, &hex_pairs[(word >> (56 - 8 * i) & 0xff) * 2], 2);
    }
  };
  write_bytes(high, 0, 4);
  *at++ = '-';
  write_bytes(high, 4, 6);
  *at++ = '-';
  write_bytes(high, 6, 8);
  *at++ = '-';
  write_bytes(low, 0, 2);
  *at++ = '-';
  write_bytes(low, 2, 8);
  return text;
}

}  // namespace evenkeel
