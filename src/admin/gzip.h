// Compression of large pages.
#pragma once

#include <string>
#include <string_view>

namespace evenkeel {

/// Compresses in gzip format, at the fastest level: 20 ms for the page of 1000 backends. Returns an
/// empty string if that fails.
std::string gzip(std::string_view text);

/// Returns the text that `gzip` has compressed. REQUIRES: it is complete.
std::string gunzip(std::string_view compressed);

}  // namespace evenkeel
