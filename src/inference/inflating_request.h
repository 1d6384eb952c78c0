// Reads a body that is compressed with zlib's algorithm, as gzip or deflate.
#pragma once

#include <zlib.h>

#include <memory>
#include <utility>

#include "inference/read_only_request.h"

namespace evenkeel {

/// Decompresses piece by piece, and keeps nothing of the text. Reading ends, without an error,
/// where the data is damaged, or expands to more than it may: what was read until then counts.
class InflatingRequest final : public ReadOnlyRequest {
 public:
  /// Bytes of text for each compressed byte, and how many more than that there may be. Prose has 3
  /// to 10; more than this costs the worker too much time.
  static constexpr std::uint64_t max_expansion = 64;
  static constexpr std::uint64_t free_expansion = 64 * 1024;

  enum class Format : std::uint8_t { gzip, deflate };

  InflatingRequest(Format format, std::unique_ptr<RequestReader> text)
      : format_(format), text_(std::move(text)) {}
  ~InflatingRequest() override;

  bool read(std::string_view bytes) override;
  bool finish() override;
  void stop() override;
  bool done() const override { return stopped_ || text_->done(); }
  const Error& error() const override { return text_->error(); }

 private:
  bool begin(char first_byte);
  bool inflate_next(bool& more);

  const Format format_;
  std::unique_ptr<RequestReader> text_;
  z_stream zlib_{};
  bool begun_ = false;
  bool ended_ = false;  // the compressed data has
  bool stopped_ = false;
  std::uint64_t read_bytes_ = 0;
  std::uint64_t text_bytes_ = 0;
};

}  // namespace evenkeel
