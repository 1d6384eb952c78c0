// Sixteen bytes at a time, for searches through text.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace evenkeel {

/// Sixteen bytes that are compared at once. Masks have a bit for each byte, the first one lowest.
class Bytes16 {
 public:
  static constexpr int size = 16;

#if defined(__SSE2__)
  static Bytes16 load(const char* at) {
    return Bytes16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(at)));
  }
  /// Each with these bits set too.
  Bytes16 with_bits(char bits) const { return Bytes16(_mm_or_si128(bytes_, _mm_set1_epi8(bits))); }
  std::uint32_t equal_to(char byte) const {
    return static_cast<std::uint32_t>(
        _mm_movemask_epi8(_mm_cmpeq_epi8(bytes_, _mm_set1_epi8(byte))));
  }

 private:
  explicit Bytes16(__m128i bytes) : bytes_(bytes) {}
  __m128i bytes_;
#else
  static Bytes16 load(const char* at) {
    Bytes16 loaded;
    std::memcpy(loaded.bytes_, at, size);
    return loaded;
  }
  Bytes16 with_bits(char bits) const {
    Bytes16 changed = *this;
    for (char& byte : changed.bytes_) byte = static_cast<char>(byte | bits);
    return changed;
  }
  std::uint32_t equal_to(char byte) const {
    std::uint32_t mask = 0;
    for (int i = 0; i < size; ++i) mask |= static_cast<std::uint32_t>(bytes_[i] == byte) << i;
    return mask;
  }

 private:
  Bytes16() = default;
  char bytes_[size] = {};
#endif
};

}  // namespace evenkeel
