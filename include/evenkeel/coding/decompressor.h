// Decompresses the body of a request piece by piece.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

namespace evenkeel {

struct WindowShare;

/// Thread: one.
class Decompressor {
 public:
  enum class Status : std::uint8_t {
    good,       ///< call it again while there are bytes, or text that found no room
    damaged,    ///< the data is malformed, or needs a larger window than any may have
    no_memory,  ///< the windows of all that is read now take too much
  };

  virtual ~Decompressor() = default;
  /// Removes bytes from the front of `bytes`, and writes the next text: its first `size` bytes.
  virtual Status next(std::string_view& bytes, std::span<char> text, std::size_t& size) = 0;
  /// True if what was read is a whole. Bytes that follow may begin more of it.
  virtual bool complete() const = 0;
};

/// gzip, and deflate with zlib's header or without.
std::unique_ptr<Decompressor> make_gzip_decompressor();
std::unique_ptr<Decompressor> make_deflate_decompressor();
/// Frames of zstd as RFC 8878 defines them, whose windows have 8 MiB at most (RFC 9659). They count
/// in `windows`, whose budget outlives the decompressor.
std::unique_ptr<Decompressor> make_zstd_decompressor(WindowShare windows);

}  // namespace evenkeel
