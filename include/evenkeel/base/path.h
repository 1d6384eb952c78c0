// Paths in their normal form.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "evenkeel/base/result.h"

namespace evenkeel {

/// The path that routes are matched on: without the query, dot segments resolved, slashes merged,
/// and unreserved characters decoded (RFC 3986 6.2.2). `%2F` stays encoded. The backend gets the
/// path as received. `storage` holds the result where it differs from the input. Errors:
/// bad_request for a broken encoding, for `%00`, and for a path that climbs above the root.
Result<std::string_view> normalised_path(std::string_view target, std::string& storage);

/// The path in which `%2F` is a slash, as servers see it that decode all of a path. `storage` holds
/// the result where it differs from `path`.
std::string_view with_decoded_slashes(std::string_view path, std::string& storage);

/// Decodes percent-encoding; what is no encoding stays as it is.
std::string percent_decoded(std::string_view text);
/// The character whose encoding `text` begins with. Nothing: it begins with none.
std::optional<char> percent_encoded_char(std::string_view text);

/// Encodes all but the unreserved characters of RFC 3986, section 2.3, and those of `kept`.
std::string percent_encoded(std::string_view text, std::string_view kept = {});
void append_percent_encoded(std::string& out, char c);

/// The number of segments that a pattern such as `/v1/**` has before its `**`; of another: of all.
std::size_t segments_before_rest(std::string_view pattern);
/// What follows that many segments of a path: empty, or beginning with a slash.
std::string_view after_segments(std::string_view path, std::size_t count);

/// Cuts the first segment off `rest`, a path without its leading slash.
std::string_view next_path_segment(std::string_view& rest);

}  // namespace evenkeel
