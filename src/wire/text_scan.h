// Classes of the bytes in a head, and scans for the end of a run of one class.
#pragma once

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "evenkeel/base/ascii.h"

namespace evenkeel {

enum CharClass : std::uint8_t {
  token_char = 1,   // RFC 9110 tchar
  value_char = 2,   // field-vchar, SP, HTAB and obs-text
  target_char = 4,  // characters of a request target
};

namespace detail {

constexpr std::array<std::uint8_t, 256> make_char_classes() {
  std::array<std::uint8_t, 256> classes{};
  for (unsigned c = 0; c < 256; ++c) {
    std::uint8_t bits = 0;
    if (is_token_char(static_cast<char>(c))) bits |= token_char;
    if (c == '\t' || (c >= 0x20 && c != 0x7f)) bits |= value_char;
    if (c > 0x20 && c < 0x7f) bits |= target_char;
    classes[c] = bits;
  }
  for (const char c : {'#', '"', '<', '>', '\\'}) {
    classes[static_cast<unsigned char>(c)] &= static_cast<std::uint8_t>(~target_char);
  }
  return classes;
}

inline constexpr auto char_classes = make_char_classes();

#if defined(__SSE2__)

constexpr std::ptrdiff_t scan_width = sizeof(__m128i);

/// 0xff in each byte that is at least `first` and at most `last`, as unsigned numbers.
inline __m128i in_range(__m128i bytes, unsigned char first, unsigned char last) {
  const __m128i above = _mm_sub_epi8(bytes, _mm_set1_epi8(static_cast<char>(first)));
  const __m128i limit = _mm_set1_epi8(static_cast<char>(last - first));
  return _mm_cmpeq_epi8(_mm_min_epu8(above, limit), above);
}

inline __m128i equal_to(__m128i bytes, char c) { return _mm_cmpeq_epi8(bytes, _mm_set1_epi8(c)); }

/// True if `outsiders` leaves out every member of the class.
template <CharClass wanted>
constexpr bool is_exact = wanted != token_char;

/// A bit for each byte that is not in the class; unless exact, also for some that are: a scan then
/// looks again at the byte where it stops.
template <CharClass wanted>
unsigned outsiders(__m128i bytes) {
  if constexpr (wanted == token_char) {  // also the signs that hardly any name has
    const __m128i letters = in_range(_mm_or_si128(bytes, _mm_set1_epi8(0x20)), 'a', 'z');
    const __m128i others = _mm_or_si128(in_range(bytes, '0', '9'), equal_to(bytes, '-'));
    return static_cast<unsigned>(_mm_movemask_epi8(_mm_or_si128(letters, others))) ^ 0xffffu;
  } else if constexpr (wanted == value_char) {
    const __m128i controls = _mm_andnot_si128(equal_to(bytes, '\t'), in_range(bytes, 0, 0x1f));
    return static_cast<unsigned>(_mm_movemask_epi8(_mm_or_si128(controls, equal_to(bytes, 0x7f))));
  } else {
    static_assert(wanted == target_char);
    const __m128i quote_hash = equal_to(_mm_or_si128(bytes, _mm_set1_epi8('"' ^ '#')), '#');
    const __m128i less_greater = equal_to(_mm_or_si128(bytes, _mm_set1_epi8('<' ^ '>')), '>');
    const __m128i excluded =
        _mm_or_si128(_mm_or_si128(quote_hash, less_greater), equal_to(bytes, '\\'));
    const __m128i inside = _mm_andnot_si128(excluded, in_range(bytes, 0x21, 0x7e));
    return static_cast<unsigned>(_mm_movemask_epi8(inside)) ^ 0xffffu;
  }
}

#endif

}  // namespace detail

inline bool is(char c, CharClass wanted) {
  return (detail::char_classes[static_cast<unsigned char>(c)] & wanted) != 0;
}

inline bool all_are(std::string_view text, CharClass wanted) {
  std::uint8_t bits = 0xff;
  for (const char c : text) bits &= detail::char_classes[static_cast<unsigned char>(c)];
  return (bits & wanted) != 0;
}

/// The first byte in [from, end) that is not of the class, or `end`.
///
/// [from, readable) is memory that may be read: with more of it than is text, as the rest of a
/// block, sixteen bytes are looked at even where fewer are left. What is behind `end` has no
/// influence on the result. REQUIRES: from <= end <= readable. Inlined, since a call would cost as
/// much as the scan of a usual name.
template <CharClass wanted>
[[gnu::always_inline]] inline const char* find_end_of(const char* from, const char* end,
                                                      [[maybe_unused]] const char* readable) {
#if defined(__SSE2__)
  while (from < end && readable - from >= detail::scan_width) {
    const unsigned outside =
        detail::outsiders<wanted>(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
    if (outside != 0) {
      from += std::countr_zero(outside);
      if constexpr (detail::is_exact<wanted>) return std::min(from, end);
      break;
    }
    from += detail::scan_width;
  }
#endif
  while (from < end && is(*from, wanted)) ++from;
  return std::min(from, end);
}

}  // namespace evenkeel
