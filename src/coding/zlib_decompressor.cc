#include <zlib.h>

#include "evenkeel/coding/decompressor.h"

namespace evenkeel {
namespace {

constexpr char gzip_begin = 0x1f;

/// A body in gzip may have several members (RFC 1952, section 2.2), whose texts are one. What
/// follows the last one and begins no other is not read.
class ZlibDecompressor final : public Decompressor {
 public:
  explicit ZlibDecompressor(bool gzip) : gzip_(gzip) {}
  ZlibDecompressor(const ZlibDecompressor&) = delete;
  ZlibDecompressor& operator=(const ZlibDecompressor&) = delete;
  ~ZlibDecompressor() override {
    if (begun_) inflateEnd(&zlib_);
  }

  Status next(std::string_view& bytes, std::span<char> text, std::size_t& size) override;
  bool complete() const override { return ended_; }

 private:
  bool begin(char first_byte);
  bool begin_member(char first_byte);

  const bool gzip_;
  z_stream zlib_{};
  bool begun_ = false;
  bool ended_ = false;     // a member, or deflate's only one
  bool trailing_ = false;  // what follows is not read
};

bool ZlibDecompressor::begin(char first_byte) {
  constexpr int largest_window = 15;
  constexpr int gzip_header = 16;
  // Some clients send `deflate` without zlib's header, whose first byte ends in 8 (RFC 1950).
  const bool has_zlib_header = (first_byte & 0x0f) == 8;
  const int bits = gzip_             ? largest_window + gzip_header
                   : has_zlib_header ? largest_window
                                     : -largest_window;
  begun_ = inflateInit2(&zlib_, bits) == Z_OK;
  return begun_;
}

/// True if another member begins behind the end of one.
bool ZlibDecompressor::begin_member(char first_byte) {
  trailing_ = trailing_ || !gzip_ || first_byte != gzip_begin || inflateReset(&zlib_) != Z_OK;
  ended_ = trailing_;
  return !trailing_;
}

Decompressor::Status ZlibDecompressor::next(std::string_view& bytes, std::span<char> text,
                                            std::size_t& size) {
  size = 0;
  if (bytes.empty() && (!begun_ || ended_)) return Status::good;
  if (ended_ && !begin_member(bytes.front())) {
    bytes = {};
    return Status::good;
  }
  if (!begun_ && !begin(bytes.front())) return Status::damaged;
  zlib_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  zlib_.avail_in = static_cast<uInt>(bytes.size());
  zlib_.next_out = reinterpret_cast<Bytef*>(text.data());
  zlib_.avail_out = static_cast<uInt>(text.size());
  const int status = inflate(&zlib_, Z_NO_FLUSH);
  bytes.remove_prefix(bytes.size() - zlib_.avail_in);
  size = text.size() - zlib_.avail_out;
  ended_ = status == Z_STREAM_END;
  // Z_BUF_ERROR: it needs more bytes.
  return ended_ || status == Z_OK || status == Z_BUF_ERROR ? Status::good : Status::damaged;
}

}  // namespace

std::unique_ptr<Decompressor> make_gzip_decompressor() {
  return std::make_unique<ZlibDecompressor>(true);
}

std::unique_ptr<Decompressor> make_deflate_decompressor() {
  return std::make_unique<ZlibDecompressor>(false);
}

}  // namespace evenkeel
