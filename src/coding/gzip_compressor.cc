#include <zlib.h>

#include "evenkeel/coding/compressor.h"

namespace evenkeel {
namespace {

// The level of zlib: at 4, JSON becomes 5 % smaller in twice the time.
constexpr int level = 2;
constexpr int window_bits = 15;
constexpr int gzip_format = 16;  // zlib: 16 more asks for gzip's header
constexpr int memory_level = 8;  // with this window: 256 KiB

class GzipCompressor final : public Compressor {
 public:
  GzipCompressor() = default;
  GzipCompressor(const GzipCompressor&) = delete;
  GzipCompressor& operator=(const GzipCompressor&) = delete;
  ~GzipCompressor() override {
    if (created_) deflateEnd(&zlib_);
  }

  /// True if there was memory.
  bool create() {
    created_ = deflateInit2(&zlib_, level, Z_DEFLATED, window_bits + gzip_format, memory_level,
                            Z_DEFAULT_STRATEGY) == Z_OK;
    return created_;
  }
  void begin(std::optional<std::uint64_t> /*length*/) override { deflateReset(&zlib_); }
  Status next(std::string_view& bytes, Ending ending, std::span<char> room,
              std::size_t& size) override;

 private:
  z_stream zlib_{};
  bool created_ = false;
};

Compressor::Status GzipCompressor::next(std::string_view& bytes, Ending ending,
                                        std::span<char> room, std::size_t& size) {
  const int flush = ending == Ending::finish  ? Z_FINISH
                    : ending == Ending::flush ? Z_SYNC_FLUSH
                                              : Z_NO_FLUSH;
  zlib_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));  // zlib only reads it
  zlib_.avail_in = static_cast<uInt>(bytes.size());
  zlib_.next_out = reinterpret_cast<Bytef*>(room.data());
  zlib_.avail_out = static_cast<uInt>(room.size());
  const int status = deflate(&zlib_, flush);
  bytes.remove_prefix(bytes.size() - zlib_.avail_in);
  size = room.size() - zlib_.avail_out;
  // Z_BUF_ERROR: there was nothing to do.
  if (status != Z_OK && status != Z_STREAM_END && status != Z_BUF_ERROR) return Status::failed;
  const bool is_flushed = ending == Ending::flush && zlib_.avail_out > 0;
  return status == Z_STREAM_END || is_flushed ? Status::done : Status::more;
}

}  // namespace

std::unique_ptr<Compressor> make_gzip_compressor() {
  auto compressor = std::make_unique<GzipCompressor>();
  if (!compressor->create()) return nullptr;
  return compressor;
}

}  // namespace evenkeel
