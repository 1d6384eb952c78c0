// How the body of a request is compressed: by its first bytes, whatever its head says.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace evenkeel {

/// What a head says of its body.
enum class NamedCoding : std::uint8_t { gzip, deflate, zstd, unknown };

/// `encoding`: a word of `content-encoding`, which is not `identity`.
NamedCoding content_coding_of(std::string_view encoding);

enum class BodyForm : std::uint8_t {
  plain,
  gzip,
  deflate,  ///< with zlib's header or without
  zstd,
  unreadable,
};

inline constexpr std::size_t max_form_bytes = 4;

/// What a server makes of a body that begins so. Many servers ignore that a head names a coding,
/// and some that know it look at the body: so a body that begins as one of the known codings has
/// this one, and another is plain. JSON and forms begin as none of them. In an unknown coding, what
/// cannot be the beginning of JSON or a form is unreadable.
///
/// Nothing: that takes more bytes, `max_form_bytes` at most.
std::optional<BodyForm> form_of(std::string_view begin, NamedCoding named);

}  // namespace evenkeel
