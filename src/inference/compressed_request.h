// Reads a body that is compressed.
#pragma once

#include <memory>
#include <utility>

#include "inference/decompressor.h"
#include "inference/read_only_request.h"

namespace evenkeel {

/// Decompresses piece by piece, and keeps nothing of the text. Reading ends, without an error,
/// where the data is damaged, or expands to more than it may, or where there is too little memory:
/// what was read until then counts.
class CompressedRequest final : public ReadOnlyRequest {
 public:
  /// Bytes of text for each compressed byte, and how many more than that there may be. Prose has 3
  /// to 10; more than this costs the worker too much time.
  static constexpr std::uint64_t max_expansion = 64;
  static constexpr std::uint64_t free_expansion = 64 * 1024;

  CompressedRequest(std::unique_ptr<Decompressor> data, std::unique_ptr<RequestReader> text)
      : data_(std::move(data)), text_(std::move(text)) {}

  bool read(std::string_view bytes) override;
  bool finish() override;
  void stop() override;
  bool done() const override { return stopped_ || text_->done(); }
  const Error& error() const override { return text_->error(); }
  Decoded decoded() const override { return decoded_; }
  bool lacks_memory() const override { return lacks_memory_; }

 private:
  void fail();

  std::unique_ptr<Decompressor> data_;
  std::unique_ptr<RequestReader> text_;
  bool stopped_ = false;
  bool lacks_memory_ = false;
  Decoded decoded_ = Decoded::all;
  std::uint64_t read_bytes_ = 0;
  std::uint64_t text_bytes_ = 0;
};

}  // namespace evenkeel
