#include "evenkeel/base/path.h"

#include <array>
#include <utility>
#include <vector>

#include "evenkeel/base/byte_vector.h"
#include "evenkeel/base/hex.h"

namespace evenkeel {
namespace {

bool unreserved(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' ||
         c == '.' || c == '_' || c == '~';
}

Error bad_path(const char* detail) {
  return {.fault = Fault::bad_request, .side = Side::client, .detail = detail};
}

constexpr char upper(char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c & ~0x20) : c; }

/// Undoes the encoding of unreserved characters, and writes that of others in upper case.
Result<std::string> decode(std::string_view path) {
  std::string decoded;
  decoded.reserve(path.size());
  for (std::size_t i = 0; i < path.size(); ++i) {
    if (path[i] != '%') {
      decoded += path[i];
      continue;
    }
    const int high = i + 2 < path.size() ? hex_value(path[i + 1]) : -1;
    const int low = i + 2 < path.size() ? hex_value(path[i + 2]) : -1;
    if (high < 0 || low < 0) return bad_path("the path holds a broken percent-encoding");
    const char c = static_cast<char>(high * 16 + low);
    if (c == '\0') return bad_path("the path holds an encoded zero byte");
    if (unreserved(c)) {
      decoded += c;
    } else {
      decoded += '%';
      decoded += upper(path[i + 1]);
      decoded += upper(path[i + 2]);
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
  for (; !text.empty(); text.remove_prefix(1)) {
    const bool escape = text.front() == '%' && text.size() >= 3;
    const int high = escape ? hex_value(text[1]) : -1;
    const int low = escape ? hex_value(text[2]) : -1;
    if (high < 0 || low < 0) {
      decoded += text.front();
      continue;
    }
    decoded += static_cast<char>(high * 16 + low);
    text.remove_prefix(2);
  }
  return decoded;
}

std::string_view next_path_segment(std::string_view& rest) {
  const auto slash = rest.find('/');
  const std::string_view segment = rest.substr(0, slash);
  rest = slash == std::string_view::npos ? std::string_view() : rest.substr(slash + 1);
  return segment;
}

}  // namespace evenkeel
