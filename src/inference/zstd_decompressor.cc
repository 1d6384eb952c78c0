#include <zstd.h>

#include <algorithm>
#include <array>

#include "evenkeel/inference/window_budget.h"
#include "inference/decompressor.h"

namespace evenkeel {
namespace {

constexpr int max_window_log = 23;  // 8 MiB

// What a context takes before it has a window.
constexpr std::uint64_t context_bytes = 256 * 1024;

struct ContextDeleter {
  void operator()(ZSTD_DCtx* context) const { ZSTD_freeDCtx(context); }
};

/// The header of a frame, which may come in pieces.
class FrameHeader {
 public:
  /// Removes its bytes from the front of `bytes`. True: it is complete, or begins no frame.
  bool read(std::string_view& bytes) {
    while (size_ < expected_size() && !bytes.empty()) {
      bytes_[size_++] = static_cast<unsigned char>(bytes.front());
      bytes.remove_prefix(1);
      if (size_ == magic_size && !is_frame() && !is_skippable()) return true;
    }
    return size_ == expected_size();
  }
  /// REQUIRES: `read` has returned true. The library may know formats from before the standard,
  /// whose windows have any size.
  bool begins_a_frame() const { return is_frame() || is_skippable(); }
  bool empty() const { return size_ == 0; }
  std::span<const unsigned char> bytes() const { return {bytes_.data(), size_}; }
  void clear() { size_ = 0; }

 private:
  static constexpr std::size_t magic_size = 4;

  bool has_magic(std::array<unsigned char, magic_size> magic, unsigned char mask) const {
    return (bytes_[0] & mask) == magic[0] && bytes_[1] == magic[1] && bytes_[2] == magic[2] &&
           bytes_[3] == magic[3];
  }
  bool is_frame() const { return has_magic({0x28, 0xb5, 0x2f, 0xfd}, 0xff); }
  bool is_skippable() const { return has_magic({0x50, 0x2a, 0x4d, 0x18}, 0xf0); }

  /// RFC 8878, sections 3.1.1.1 and 3.1.2; as far as it is known.
  std::size_t expected_size() const {
    if (size_ < magic_size) return magic_size;
    if (is_skippable()) return magic_size + 4;
    if (size_ == magic_size) return magic_size + 1;
    constexpr std::array<std::size_t, 4> dictionary_id = {0, 1, 2, 4};
    constexpr std::array<std::size_t, 4> content_size = {0, 2, 4, 8};
    const unsigned descriptor = bytes_[magic_size];
    const bool single_segment = (descriptor & 0x20) != 0;
    const std::size_t content = content_size[descriptor >> 6];
    const std::size_t window_or_small_content = !single_segment || content == 0 ? 1 : 0;
    return magic_size + 1 + window_or_small_content + dictionary_id[descriptor & 3] + content;
  }

  std::array<unsigned char, 18> bytes_{};
  std::size_t size_ = 0;
};

/// Frames may follow each other, and some of them hold no text (skippable frames).
class ZstdDecompressor final : public Decompressor {
 public:
  explicit ZstdDecompressor(WindowBudget* windows) : windows_(windows) {}
  ZstdDecompressor(const ZstdDecompressor&) = delete;
  ZstdDecompressor& operator=(const ZstdDecompressor&) = delete;
  ~ZstdDecompressor() override {
    if (windows_ != nullptr) windows_->give(counted_bytes_);
  }

  Status next(std::string_view& bytes, std::span<char> text, std::size_t& size) override;
  bool complete() const override { return frames_ > 0 && between_frames_ && header_.empty(); }

 private:
  bool begin();
  bool begin_frame();
  bool count_memory(std::size_t more_text);

  WindowBudget* const windows_;
  std::unique_ptr<ZSTD_DCtx, ContextDeleter> context_;
  std::uint64_t counted_bytes_ = 0;
  std::uint64_t text_bytes_ = 0;
  std::uint64_t frames_ = 0;  // that have ended
  bool between_frames_ = true;
  FrameHeader header_;
};

bool ZstdDecompressor::begin() {
  if (!count_memory(0)) return false;
  context_.reset(ZSTD_createDCtx());
  if (context_ == nullptr) return false;
  const std::size_t set =
      ZSTD_DCtx_setParameter(context_.get(), ZSTD_d_windowLogMax, max_window_log);
  return ZSTD_isError(set) == 0;
}

/// Gives the library the whole header at once and no room for text: cut within a header, it could
/// take the rest for the beginning of another frame.
bool ZstdDecompressor::begin_frame() {
  if (!header_.begins_a_frame()) return false;
  ZSTD_inBuffer in{header_.bytes().data(), header_.bytes().size(), 0};
  ZSTD_outBuffer out{nullptr, 0, 0};
  const std::size_t left = ZSTD_decompressStream(context_.get(), &out, &in);
  header_.clear();
  between_frames_ = left == 0;  // of an empty skippable frame there is nothing more
  return ZSTD_isError(left) == 0 && in.pos == in.size;
}

Decompressor::Status ZstdDecompressor::next(std::string_view& bytes, std::span<char> text,
                                            std::size_t& size) {
  size = 0;
  if (context_ == nullptr && !begin()) return Status::damaged;
  if (between_frames_) {
    if (!header_.read(bytes)) return Status::good;
    if (!begin_frame()) return Status::damaged;
    frames_ += between_frames_ ? 1 : 0;
    if (between_frames_) return Status::good;
  }
  ZSTD_inBuffer in{bytes.data(), bytes.size(), 0};
  ZSTD_outBuffer out{text.data(), text.size(), 0};
  const std::size_t left = ZSTD_decompressStream(context_.get(), &out, &in);
  bytes.remove_prefix(in.pos);
  size = out.pos;
  if (ZSTD_isError(left) != 0 || !count_memory(size)) return Status::damaged;
  between_frames_ = left == 0;
  frames_ += between_frames_ ? 1 : 0;
  return Status::good;
}

/// A window is memory once text has been written there.
bool ZstdDecompressor::count_memory(std::size_t more_text) {
  if (windows_ == nullptr) return true;
  text_bytes_ += more_text;
  const std::uint64_t allocated = context_ == nullptr ? 0 : ZSTD_sizeof_DCtx(context_.get());
  const std::uint64_t used =
      std::max(context_bytes, std::min(allocated, context_bytes + text_bytes_));
  if (used <= counted_bytes_) return true;
  if (!windows_->take(used - counted_bytes_)) return false;
  counted_bytes_ = used;
  return true;
}

}  // namespace

std::unique_ptr<Decompressor> make_zstd_decompressor(WindowBudget* windows) {
  return std::make_unique<ZstdDecompressor>(windows);
}

}  // namespace evenkeel
