#include "evenkeel/json/text.h"

#include <simdjson.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "evenkeel/base/hex.h"
#include "evenkeel/base/utf8.h"

#if defined(__SSE2__)
#include <immintrin.h>
#endif

namespace evenkeel::json {
namespace {

bool is_special(char c) { return c == '"' || c == '\\' || static_cast<unsigned char>(c) < 0x20; }

#if defined(__SSE2__)
// All bits of each byte that is special.
__m128i find_special(__m128i bytes) {
  const __m128i controls = _mm_cmpeq_epi8(_mm_min_epu8(bytes, _mm_set1_epi8(0x1f)), bytes);
  return _mm_or_si128(_mm_or_si128(_mm_cmpeq_epi8(bytes, _mm_set1_epi8('"')),
                                   _mm_cmpeq_epi8(bytes, _mm_set1_epi8('\\'))),
                      controls);
}
#endif

#if defined(__x86_64__)
const bool has_avx2 = __builtin_cpu_supports("avx2") != 0;

// Skips 64 bytes at a time, as long as none of them is special; sets bits of `high_bits` if one is
// above 0x7f. REQUIRES: has_avx2.
[[gnu::target("avx2")]] const char* skip_plain(const char* begin, const char* end, int& high_bits) {
  const __m256i quote = _mm256_set1_epi8('"');
  const __m256i backslash = _mm256_set1_epi8('\\');
  const __m256i last_control = _mm256_set1_epi8(0x1f);
  for (; end - begin >= 64; begin += 64) {
    const __m256i a = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(begin));
    const __m256i b = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(begin + 32));
    const __m256i quotes =
        _mm256_or_si256(_mm256_cmpeq_epi8(a, quote), _mm256_cmpeq_epi8(b, quote));
    const __m256i backslashes =
        _mm256_or_si256(_mm256_cmpeq_epi8(a, backslash), _mm256_cmpeq_epi8(b, backslash));
    const __m256i lowest = _mm256_min_epu8(a, b);
    const __m256i controls = _mm256_cmpeq_epi8(_mm256_min_epu8(lowest, last_control), lowest);
    const __m256i special = _mm256_or_si256(_mm256_or_si256(quotes, backslashes), controls);
    if (_mm256_testz_si256(special, special) == 0) break;
    high_bits |= _mm256_movemask_epi8(_mm256_or_si256(a, b));
  }
  return begin;
}
#endif

// Bytes at the end of `text` that are the beginning of a character.
std::size_t incomplete_tail(std::string_view text) {
  for (std::size_t count = 1; count <= std::min<std::size_t>(3, text.size()); ++count) {
    const std::string_view tail = text.substr(text.size() - count);
    if ((static_cast<unsigned char>(tail[0]) & 0xc0) == 0x80) continue;
    std::size_t size = 0;
    return first_utf8_sequence(tail, size) == Utf8Sequence::incomplete ? count : 0;
  }
  return 0;
}

// Removes the beginning of a character at the end of `text`, which is well-formed apart from that.
std::string_view whole_characters(std::string_view text) {
  return text.substr(0, text.size() - incomplete_tail(text));
}

void append_utf8(std::string& out, std::uint32_t code) {
  const auto add = [&](std::uint32_t byte) { out += static_cast<char>(byte); };
  if (code < 0x80) {
    add(code);
  } else if (code < 0x800) {
    add(0xc0 | code >> 6);
    add(0x80 | (code & 0x3f));
  } else if (code < 0x10000) {
    add(0xe0 | code >> 12);
    add(0x80 | (code >> 6 & 0x3f));
    add(0x80 | (code & 0x3f));
  } else {
    add(0xf0 | code >> 18);
    add(0x80 | (code >> 12 & 0x3f));
    add(0x80 | (code >> 6 & 0x3f));
    add(0x80 | (code & 0x3f));
  }
}

// The four digits of `\uXXXX` at the beginning of `raw`; -1: there is no whole such escape.
int unicode_escape(std::string_view raw) {
  if (raw.size() < 6 || raw[0] != '\\' || raw[1] != 'u') return -1;
  int code = 0;
  for (int i = 2; i < 6; ++i) code = code << 4 | hex_value(raw[static_cast<std::size_t>(i)]);
  return code;
}

bool is_high_surrogate(int code) { return code >= 0xd800 && code < 0xdc00; }
bool is_low_surrogate(int code) { return code >= 0xdc00 && code < 0xe000; }

char simple_escape(char c) {
  switch (c) {
    case 'b': return '\b';
    case 'f': return '\f';
    case 'n': return '\n';
    case 'r': return '\r';
    case 't': return '\t';
    default: return c;  // quote, backslash, slash
  }
}

// Decodes the escape at the beginning of `raw`. Returns the bytes that it took; 0: it is
// incomplete.
std::size_t decode_escape(std::string_view raw, std::string& out) {
  if (raw.size() < 2) return 0;
  if (raw[1] != 'u') {
    out += simple_escape(raw[1]);
    return 2;
  }
  const int code = unicode_escape(raw);
  if (code < 0) return 0;
  const int next = is_high_surrogate(code) ? unicode_escape(raw.substr(6)) : -1;
  if (is_low_surrogate(next)) {
    append_utf8(out, 0x10000 + (static_cast<std::uint32_t>(code - 0xd800) << 10 |
                                static_cast<std::uint32_t>(next - 0xdc00)));
    return 12;
  }
  const bool lone = is_high_surrogate(code) || is_low_surrogate(code);
  append_utf8(out, lone ? 0xfffd : static_cast<std::uint32_t>(code));
  return 6;
}

}  // namespace

const char* find_special(const char* begin, const char* end, bool& non_ascii) {
#if defined(__SSE2__)
  int high_bits = 0;
#if defined(__x86_64__)
  const bool is_long = end - begin >= 64 && _mm_movemask_epi8(find_special(_mm_loadu_si128(
                                                reinterpret_cast<const __m128i*>(begin)))) == 0;
  if (is_long && has_avx2) begin = skip_plain(begin, end, high_bits);
#endif
  for (; end - begin >= 16; begin += 16) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(begin));
    high_bits |= _mm_movemask_epi8(bytes);
    const auto mask = static_cast<unsigned>(_mm_movemask_epi8(find_special(bytes)));
    if (mask != 0) {
      if (high_bits != 0) non_ascii = true;
      return begin + std::countr_zero(mask);
    }
  }
  if (high_bits != 0) non_ascii = true;
#else
  // Eight bytes at a time: Hacker's Delight, section 6-1.
  constexpr std::uint64_t ones = 0x0101010101010101;
  constexpr std::uint64_t highs = 0x8080808080808080;
  const auto has_less = [](std::uint64_t word, std::uint64_t limit) {
    return (word - ones * limit) & ~word & highs;
  };
  for (; end - begin >= 8; begin += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, begin, sizeof word);
    if ((word & highs) != 0) non_ascii = true;
    if ((has_less(word, 0x20) | has_less(word ^ (ones * '"'), 1) |
         has_less(word ^ (ones * '\\'), 1)) != 0) {
      break;
    }
  }
#endif
  for (; begin != end && !is_special(*begin); ++begin) {
    if (static_cast<unsigned char>(*begin) >= 0x80) non_ascii = true;
  }
  return begin;
}

bool Utf8Check::complete_pending(std::string_view& piece) {
  while (size_ > 0 && !piece.empty()) {
    bytes_[size_++] = piece.front();
    std::size_t size = 0;
    switch (first_utf8_sequence({bytes_.data(), size_}, size)) {
      case Utf8Sequence::incomplete: break;
      case Utf8Sequence::complete: size_ = 0; break;
      case Utf8Sequence::ill_formed: bad_at_ = begin_; return false;
    }
    piece.remove_prefix(1);
  }
  return true;
}

bool Utf8Check::add(std::string_view piece, std::uint64_t offset) {
  const std::size_t all = piece.size();
  if (!complete_pending(piece)) return false;
  if (size_ > 0) return true;
  offset += all - piece.size();

  const std::size_t tail = incomplete_tail(piece);
  const std::string_view whole = piece.substr(0, piece.size() - tail);
  if (!whole.empty() && !simdjson::validate_utf8(whole.data(), whole.size())) {
    bad_at_ = offset + utf8_prefix(whole, whole.size()).size();
    return false;
  }
  std::copy_n(piece.end() - static_cast<std::ptrdiff_t>(tail), tail, bytes_.begin());
  size_ = static_cast<std::uint8_t>(tail);
  begin_ = offset + whole.size();
  return true;
}

bool Utf8Check::finish() {
  if (size_ == 0) return true;
  bad_at_ = begin_;
  size_ = 0;
  return false;
}

std::string_view utf8_prefix(std::string_view text, std::size_t max_bytes) {
  text = text.substr(0, max_bytes);
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t size = utf8_length(text.substr(at));
    if (size == 0) break;
    at += size;
  }
  return text.substr(0, at);
}

std::string decode_string(std::string_view raw, std::size_t max_bytes) {
  const bool is_plain = raw.find('\\') == raw.npos && raw.size() <= max_bytes;
  if (is_plain && (raw.empty() || static_cast<unsigned char>(raw.back()) < 0x80))
    return std::string(raw);  // most are, and end with a whole character
  std::string out;
  while (!raw.empty()) {
    const std::size_t before = out.size();
    std::size_t taken = 0;
    if (raw[0] == '\\') {
      taken = decode_escape(raw, out);
    } else {
      const std::string_view plain = raw.substr(0, raw.find('\\'));
      out += whole_characters(plain.substr(0, max_bytes - out.size()));
      taken = out.size() - before;
      if (taken < plain.size()) break;
    }
    if (taken == 0) break;
    if (out.size() > max_bytes) {
      out.resize(before);
      break;
    }
    raw.remove_prefix(taken);
  }
  return out;
}

}  // namespace evenkeel::json
