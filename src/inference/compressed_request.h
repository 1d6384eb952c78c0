// Reads a body that is compressed, or of which the head says so.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "evenkeel/coding/decompressor.h"
#include "evenkeel/inference/request_reader.h"
#include "inference/content_coding.h"

namespace evenkeel {

/// Decompresses piece by piece, and keeps nothing of the text. Reading ends, without an error,
/// where the data is damaged, or expands to more than it may, or where there is too little memory:
/// what was read until then counts. A body that is plain (see form_of) is read as if its head did
/// not say otherwise.
class CompressedRequest final : public RequestReader {
 public:
  /// Bytes of text for each compressed byte, and how many more than that there may be. Prose has 3
  /// to 10; more than this costs the worker too much time.
  static constexpr std::uint64_t max_expansion = 64;
  static constexpr std::uint64_t free_expansion = 64 * 1024;

  CompressedRequest(NamedCoding named, WindowShare windows, std::unique_ptr<RequestReader> text)
      : named_(named), windows_(windows), text_(std::move(text)) {}

  bool read(std::string_view bytes) override;
  bool finish() override;
  void stop() override;
  bool done() const override { return stopped_ || text_->done(); }
  const Error& error() const override { return text_->error(); }
  Decoded decoded() const override { return decoded_; }
  bool lacks_memory() const override { return lacks_memory_; }
  std::vector<BodyRange> take_model_values() override {
    return is_plain() ? text_->take_model_values() : std::vector<BodyRange>();
  }
  std::optional<BodyRange> stream_options() const override {
    return is_plain() ? text_->stream_options() : std::nullopt;
  }
  std::optional<std::uint64_t> object_begin() const override {
    return is_plain() ? text_->object_begin() : std::nullopt;
  }
  bool has_members() const override { return is_plain() && text_->has_members(); }
  std::vector<MemberPlace> take_members() override {
    return is_plain() ? text_->take_members() : std::vector<MemberPlace>();
  }

 private:
  bool is_plain() const { return form_ == BodyForm::plain; }
  bool begin(std::string_view& bytes);
  bool read_on(std::string_view bytes);
  bool decompress(std::string_view bytes);
  void fail();

  const NamedCoding named_;
  const WindowShare windows_;
  std::array<char, max_form_bytes> begin_{};  // until the form is known
  std::size_t begin_size_ = 0;
  std::optional<BodyForm> form_;
  std::unique_ptr<Decompressor> data_;  // null: the form is not known, or plain, or it has stopped
  std::unique_ptr<RequestReader> text_;
  bool stopped_ = false;
  bool lacks_memory_ = false;
  Decoded decoded_ = Decoded::all;
  std::uint64_t read_bytes_ = 0;
  std::uint64_t text_bytes_ = 0;
};

}  // namespace evenkeel
