// Sixteen bytes in a register: a vector extension of g++ and clang that works on every processor.
#pragma once

#include <cstdint>
#include <cstring>

namespace evenkeel {

using ByteVector [[gnu::vector_size(16)]] = unsigned char;

/// Sixteen signed bytes, as a comparison gives them: all bits of a byte are set where it is true.
using SignedByteVector [[gnu::vector_size(16)]] = signed char;

inline ByteVector load_bytes(const char* from) {
  ByteVector bytes;
  std::memcpy(&bytes, from, sizeof bytes);
  return bytes;
}

namespace detail {
using MaskHalves [[gnu::vector_size(16)]] = std::uint64_t;
}

inline bool any_of(SignedByteVector mask) {
  const auto halves = reinterpret_cast<detail::MaskHalves>(mask);
  return (halves[0] | halves[1]) != 0;
}

inline bool all_of(SignedByteVector mask) {
  const auto halves = reinterpret_cast<detail::MaskHalves>(mask);
  return (halves[0] & halves[1]) == ~std::uint64_t{0};
}

}  // namespace evenkeel
