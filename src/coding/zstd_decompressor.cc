#include <zstd.h>

#include <algorithm>

#include "coding/zstd_frame.h"
#include "evenkeel/coding/decompressor.h"
#include "evenkeel/coding/window_budget.h"

namespace evenkeel {
namespace {

constexpr int max_window_log = 23;  // 8 MiB

// What a context takes with a window in which nothing has been written, at most.
constexpr std::uint64_t context_bytes = 256 * 1024;

struct ContextDeleter {
  void operator()(ZSTD_DCtx* context) const { ZSTD_freeDCtx(context); }
};

/// Frames may follow each other, and some of them hold no text (skippable frames).
///
/// The library gets one part of a frame at a time. When it finds an error it does not tell how much
/// text it has written before, so that what is read of damaged data would depend on its cuts.
class ZstdDecompressor final : public Decompressor {
 public:
  explicit ZstdDecompressor(WindowShare windows) : windows_(windows) {}
  ZstdDecompressor(const ZstdDecompressor&) = delete;
  ZstdDecompressor& operator=(const ZstdDecompressor&) = delete;
  ~ZstdDecompressor() override {
    if (windows_.budget != nullptr) windows_.budget->give(windows_.client, counted_bytes_);
  }

  Status next(std::string_view& bytes, std::span<char> text, std::size_t& size) override;
  bool complete() const override { return frames_ > 0 && between_frames_ && header_.empty(); }

 private:
  bool create_context();
  Status begin_frame();
  bool count_memory(std::size_t more_text);

  const WindowShare windows_;
  std::unique_ptr<ZSTD_DCtx, ContextDeleter> context_;
  std::uint64_t counted_bytes_ = 0;
  std::uint64_t text_bytes_ = 0;
  std::uint64_t frames_ = 0;  // that have ended
  bool between_frames_ = true;
  zstd::FrameHeader header_;
  zstd::FrameParts parts_;
  bool has_more_text_ = false;  // perhaps: the last text found no room
};

bool ZstdDecompressor::create_context() {
  context_.reset(ZSTD_createDCtx());
  if (context_ == nullptr) return false;
  const std::size_t set =
      ZSTD_DCtx_setParameter(context_.get(), ZSTD_d_windowLogMax, max_window_log);
  return ZSTD_isError(set) == 0;
}

/// Gives the library the whole header at once and no room for text: cut within a header, it could
/// take the rest for the beginning of another frame. It may know formats from before the standard,
/// whose windows have any size: they are refused. Before that nothing is allocated, so that clients
/// which only begin a body take no memory from others.
Decompressor::Status ZstdDecompressor::begin_frame() {
  if (!header_.begins_a_frame()) return Status::damaged;
  if (context_ == nullptr && !create_context()) return Status::no_memory;
  ZSTD_inBuffer in{header_.bytes().data(), header_.bytes().size(), 0};
  ZSTD_outBuffer out{nullptr, 0, 0};
  const std::size_t left = ZSTD_decompressStream(context_.get(), &out, &in);
  parts_.begin(header_);
  header_.clear();
  has_more_text_ = false;
  between_frames_ = left == 0;  // of an empty skippable frame there is nothing more
  if (ZSTD_isError(left) != 0 || in.pos != in.size) return Status::damaged;
  return count_memory(0) ? Status::good : Status::no_memory;
}

Decompressor::Status ZstdDecompressor::next(std::string_view& bytes, std::span<char> text,
                                            std::size_t& size) {
  size = 0;
  if (between_frames_) {
    if (!header_.read(bytes)) return Status::good;
    if (const Status begun = begin_frame(); begun != Status::good) return begun;
    frames_ += between_frames_ ? 1 : 0;
    if (between_frames_) return Status::good;
  }
  const std::size_t given = has_more_text_ ? 0 : std::min(bytes.size(), parts_.left());
  ZSTD_inBuffer in{bytes.data(), given, 0};
  ZSTD_outBuffer out{text.data(), text.size(), 0};
  const std::size_t left = ZSTD_decompressStream(context_.get(), &out, &in);
  parts_.pass(bytes.substr(0, in.pos));
  bytes.remove_prefix(in.pos);
  size = out.pos;
  has_more_text_ = size == text.size();
  if (ZSTD_isError(left) != 0) return Status::damaged;
  if (!count_memory(size)) return Status::no_memory;
  between_frames_ = left == 0;
  frames_ += between_frames_ ? 1 : 0;
  return Status::good;
}

/// True if the budget has it: a window is memory once it has text. REQUIRES: there is a context.
bool ZstdDecompressor::count_memory(std::size_t more_text) {
  if (windows_.budget == nullptr) return true;
  text_bytes_ += more_text;
  const std::uint64_t allocated = ZSTD_sizeof_DCtx(context_.get());
  const std::uint64_t used = std::min(allocated, context_bytes + text_bytes_);
  if (used <= counted_bytes_) return true;
  if (!windows_.budget->take(windows_.client, used - counted_bytes_)) return false;
  counted_bytes_ = used;
  return true;
}

}  // namespace

std::unique_ptr<Decompressor> make_zstd_decompressor(WindowShare windows) {
  return std::make_unique<ZstdDecompressor>(windows);
}

}  // namespace evenkeel
