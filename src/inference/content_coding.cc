#include "inference/content_coding.h"

#include "evenkeel/http/fields.h"

namespace evenkeel {
namespace {

constexpr std::string_view zstd_magic = "\x28\xb5\x2f\xfd";
constexpr std::string_view skippable_magic = "\x2a\x4d\x18";  // behind a byte from 0x50 to 0x5f

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

/// True if the bytes are a header of zlib (RFC 1950, section 2.2).
bool has_zlib_header(unsigned char first, unsigned char second) {
  return (first & 0x0f) == 8 && first >> 4 <= 7 && (first * 256 + second) % 31 == 0;
}

/// True if a JSON object or a form may begin like this, in any encoding of Unicode: Python finds
/// out which one it is.
bool may_begin_text(char first, char second) {
  const auto begins = [](char c) { return c == '{' || c == '\0' || is_space(c); };
  if (begins(first)) return begins(second) || second == '"' || second == '}';
  const std::string_view both[] = {"--", "\xef\xbb", "\xff\xfe", "\xfe\xff"};
  for (const std::string_view each : both) {
    if (first == each[0] && second == each[1]) return true;
  }
  return false;
}

/// True if the body is a frame of zstd. Nothing if it may be one.
std::optional<bool> is_zstd(std::string_view begin) {
  const bool skippable = (begin.front() & 0xf0) == 0x50;
  const std::string_view magic = skippable ? skippable_magic : zstd_magic.substr(1);
  if (!skippable && begin.front() != zstd_magic.front()) return false;
  begin.remove_prefix(1);
  if (!magic.starts_with(begin.substr(0, magic.size()))) return false;
  return begin.size() < magic.size() ? std::nullopt : std::optional(true);
}

}  // namespace

NamedCoding content_coding_of(std::string_view encoding) {
  const auto is = [encoding](std::string_view name) { return equals_ignore_case(encoding, name); };
  if (is("gzip") || is("x-gzip")) return NamedCoding::gzip;
  if (is("deflate")) return NamedCoding::deflate;
  if (is("zstd")) return NamedCoding::zstd;
  return NamedCoding::unknown;
}

std::optional<BodyForm> form_of(std::string_view begin, NamedCoding named) {
  if (begin.size() < 2) return std::nullopt;
  const auto first = static_cast<unsigned char>(begin[0]);
  const auto second = static_cast<unsigned char>(begin[1]);
  if (may_begin_text(begin[0], begin[1])) return BodyForm::plain;
  if (named == NamedCoding::unknown) return BodyForm::unreadable;
  if (first == 0x1f && second == 0x8b) return BodyForm::gzip;
  if (has_zlib_header(first, second)) return BodyForm::deflate;
  const auto zstd = is_zstd(begin);
  if (!zstd) return std::nullopt;
  if (*zstd) return BodyForm::zstd;
  return named == NamedCoding::deflate ? BodyForm::deflate : BodyForm::plain;
}

}  // namespace evenkeel
