#include <zstd.h>

#include "evenkeel/coding/compressor.h"

namespace evenkeel {
namespace {

// The level of the library: those above take more time, and make floating-point numbers no smaller.
constexpr int level = 2;
// The window, that of gzip. With it and these tables a compressor takes 305 KiB; with the library's
// own for the level, more than a MiB.
constexpr int window_log = 15;
constexpr int hash_log = 14;

struct ContextDeleter {
  void operator()(ZSTD_CCtx* context) const { ZSTD_freeCCtx(context); }
};

class ZstdCompressor final : public Compressor {
 public:
  /// True if there was memory.
  bool create() {
    context_.reset(ZSTD_createCCtx());
    if (context_ == nullptr) return false;
    const auto set = [this](ZSTD_cParameter parameter, int value) {
      return ZSTD_isError(ZSTD_CCtx_setParameter(context_.get(), parameter, value)) == 0;
    };
    return set(ZSTD_c_compressionLevel, level) && set(ZSTD_c_windowLog, window_log) &&
           set(ZSTD_c_hashLog, hash_log);
  }
  void begin(std::optional<std::uint64_t> length) override {
    ZSTD_CCtx_reset(context_.get(), ZSTD_reset_session_only);
    // A frame that tells its length can be read into memory of that size.
    ZSTD_CCtx_setPledgedSrcSize(context_.get(), length.value_or(ZSTD_CONTENTSIZE_UNKNOWN));
  }
  Status next(std::string_view& bytes, Ending ending, std::span<char> room,
              std::size_t& size) override;

 private:
  std::unique_ptr<ZSTD_CCtx, ContextDeleter> context_;
};

Compressor::Status ZstdCompressor::next(std::string_view& bytes, Ending ending,
                                        std::span<char> room, std::size_t& size) {
  const ZSTD_EndDirective directive = ending == Ending::finish  ? ZSTD_e_end
                                      : ending == Ending::flush ? ZSTD_e_flush
                                                                : ZSTD_e_continue;
  ZSTD_inBuffer in{bytes.data(), bytes.size(), 0};
  ZSTD_outBuffer out{room.data(), room.size(), 0};
  std::size_t left = 0;
  do {
    left = ZSTD_compressStream2(context_.get(), &out, &in, directive);
    if (ZSTD_isError(left) != 0) break;
  } while (out.pos < out.size && (in.pos < in.size || (ending != Ending::none && left > 0)));
  bytes.remove_prefix(in.pos);
  size = out.pos;
  if (ZSTD_isError(left) != 0) return Status::failed;
  return ending != Ending::none && left == 0 && bytes.empty() ? Status::done : Status::more;
}

}  // namespace

std::unique_ptr<Compressor> make_zstd_compressor() {
  auto compressor = std::make_unique<ZstdCompressor>();
  if (!compressor->create()) return nullptr;
  return compressor;
}

}  // namespace evenkeel
