// Compression of large pages.
#pragma once

#include <string>
#include <string_view>

namespace evenkeel {

/// In gzip format, at the fastest level: 20 ms for the page of 1000 backends. Empty if out of
/// memory.
std::string gzip(std::string_view text);

/// Whether an Accept-Encoding field allows gzip (RFC 9110, section 12.5.3).
bool accepts_gzip(std::string_view accept_encoding);

}  // namespace evenkeel
