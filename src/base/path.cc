#include "evenkeel/base/path.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "evenkeel/base/ascii.h"
#include "evenkeel/base/byte_vector.h"
#include "evenkeel/base/hex.h"

namespace evenkeel {
namespace {

bool unreserved(char c) {
  return is_letter_or_digit(c) || c == '-' || c == '.' || c == '_' || c == '~';
}

Error bad_path(const char* detail) {
  return {.fault = Fault::bad_request, .side = Side::client, .detail = detail};
}

/// Undoes the encoding of unreserved characters, and writes that of others in upper case.
Result<std::string> decode(std::string_view path) {
  std::string decoded;
  decoded.reserve(path.size());
  for (std::size_t i = 0; i < path.size(); ++i) {
    if (path[i] != '%') {
      decoded += path[i];
      continue;
    }
    const auto c = percent_encoded_char(path.substr(i));
    if (!c) return bad_path("the path holds a broken percent-encoding");
    if (*c == '\0') return bad_path("the path holds an encoded zero byte");
    if (unreserved(*c)) {
      decoded += *c;
    } else {
      decoded += '%';
      decoded += to_upper(path[i + 1]);
      decoded += to_upper(path[i + 2]);
    }
    i += 2;
  }
  return decoded;
}

struct PathOfTarget {
  std::string_view path;  // without the query
  bool normal;            // nothing to decode, no empty segment, none that begins with a dot
};

/// The bytes that can end a path or keep it from being normal.
constexpr auto path_marks = [] {
  std::array<bool, 256> marks{};
  for (const char c : {'/', '%', '?'}) marks[static_cast<unsigned char>(c)] = true;
  return marks;
}();

/// True if one of sixteen bytes ends a path or keeps it from being normal. `next`: the bytes one
/// further, since what a slash begins depends on the next one.
bool has_path_mark(ByteVector bytes, ByteVector next) {
  return any_of((bytes == '?') | (bytes == '%') |
                ((bytes == '/') & ((next == '/') | (next == '.'))));
}

PathOfTarget split_path(std::string_view target) {
  bool normal = true;
  const char* const begin = target.data();
  const char* const end = begin + target.size();
  const char* at = begin;
  while (end - at > 16 && !has_path_mark(load_bytes(at), load_bytes(at + 1))) at += 16;
  for (; at != end; ++at) {
    if (!path_marks[static_cast<unsigned char>(*at)]) [[likely]]
      continue;
    if (*at == '?') break;
    const bool slash = *at == '/';
    normal &= slash && (at + 1 == end || (at[1] != '/' && at[1] != '.'));
  }
  return {{begin, static_cast<std::size_t>(at - begin)}, normal};
}

}  // namespace

Result<std::string_view> normalised_path(std::string_view target, std::string& storage) {
  const auto [path, normal] = split_path(target);
  if (normal) return path;
  auto decoded = decode(path);
  if (!decoded) return std::move(decoded.error());

  std::vector<std::string_view> segments;
  std::string_view rest = std::string_view(*decoded).substr(1);
  bool directory = false;
  while (true) {
    const bool last = rest.find('/') == std::string_view::npos;
    const std::string_view segment = next_path_segment(rest);
    directory = segment.empty() || segment == "." || segment == "..";
    if (segment == "..") {
      if (segments.empty()) return bad_path("the path climbs above its root");
      segments.pop_back();
    } else if (!segment.empty() && segment != ".") {
      segments.push_back(segment);
    }
    if (last) break;
  }
  storage.clear();
  for (const std::string_view segment : segments) storage.append("/").append(segment);
  if (storage.empty() || directory) storage += '/';
  return std::string_view(storage);
}

std::string_view with_decoded_slashes(std::string_view path, std::string& storage) {
  const auto is_slash = [path](std::size_t i) {
    return path.size() - i >= 3 && path[i + 1] == '2' && (path[i + 2] | 0x20) == 'f';
  };
  if (path.find('%') == std::string_view::npos) return path;
  std::string decoded;
  for (std::size_t i = 0; i < path.size(); ++i) {
    const bool slash = path[i] == '%' && is_slash(i);
    decoded += slash ? '/' : path[i];
    if (slash) i += 2;
  }
  storage = std::move(decoded);
  return storage;
}

std::string percent_decoded(std::string_view text) {
  std::string decoded;
  while (!text.empty()) {
    const auto c = percent_encoded_char(text);
    decoded += c.value_or(text.front());
    text.remove_prefix(c ? 3 : 1);
  }
  return decoded;
}

std::optional<char> percent_encoded_char(std::string_view text) {
  if (text.size() < 3 || text[0] != '%') return std::nullopt;
  const int high = hex_value(text[1]);
  const int low = hex_value(text[2]);
  if (high < 0 || low < 0) return std::nullopt;
  return static_cast<char>(high * 16 + low);
}

void append_percent_encoded(std::string& out, char c) {
  constexpr std::string_view digits = "0123456789ABCDEF";
  const auto byte = static_cast<unsigned char>(c);
  out.append({'%', digits[byte >> 4], digits[byte & 15]});
}

std::string percent_encoded(std::string_view text, std::string_view kept) {
  std::string encoded;
  for (const char c : text) {
    if (unreserved(c) || kept.find(c) != kept.npos) {
      encoded += c;
    } else {
      append_percent_encoded(encoded, c);
    }
  }
  return encoded;
}

std::size_t segments_before_rest(std::string_view pattern) {
  constexpr std::string_view rest = "/**";
  if (pattern.ends_with(rest)) pattern.remove_suffix(rest.size());
  return static_cast<std::size_t>(std::count(pattern.begin(), pattern.end(), '/'));
}

std::string_view after_segments(std::string_view path, std::size_t count) {
  for (; count > 0; --count) path.remove_prefix(std::min(path.find('/', 1), path.size()));
  return path;
}

std::string_view next_path_segment(std::string_view& rest) {
  const auto slash = rest.find('/');
  const std::string_view segment = rest.substr(0, slash);
  rest = slash == std::string_view::npos ? std::string_view() : rest.substr(slash + 1);
  return segment;
}

}  // namespace evenkeel
