#include "inference/compressed_request.h"

#include <array>

namespace evenkeel {
namespace {

/// Returns null if the body is not compressed, or cannot be read.
std::unique_ptr<Decompressor> decompressor_of(BodyForm form, WindowShare windows) {
  switch (form) {
    case BodyForm::gzip: return make_gzip_decompressor();
    case BodyForm::deflate: return make_deflate_decompressor();
    case BodyForm::zstd: return make_zstd_decompressor(windows);
    case BodyForm::plain:
    case BodyForm::unreadable: break;
  }
  return nullptr;
}

}  // namespace

bool CompressedRequest::read(std::string_view bytes) {
  if (!form_ && !stopped_ && !begin(bytes)) return false;
  return read_on(bytes);
}

/// Removes bytes from the front of `bytes` until the form is known, and reads them.
bool CompressedRequest::begin(std::string_view& bytes) {
  while (!form_ && !bytes.empty()) {
    begin_[begin_size_++] = bytes.front();
    bytes.remove_prefix(1);
    form_ = form_of({begin_.data(), begin_size_}, named_);
  }
  if (!form_) return true;
  data_ = decompressor_of(*form_, windows_);
  if (form_ == BodyForm::unreadable) fail();
  return read_on({begin_.data(), begin_size_});
}

bool CompressedRequest::read_on(std::string_view bytes) {
  if (stopped_ || !form_) return true;
  return is_plain() ? text_->read(bytes) : decompress(bytes);
}

bool CompressedRequest::decompress(std::string_view bytes) {
  read_bytes_ += bytes.size();
  std::array<char, 16 * 1024> text;
  bool more = !bytes.empty();
  while (more && !done()) {
    std::size_t size = 0;
    const auto status = data_->next(bytes, text, size);
    text_bytes_ += size;
    if (!text_->read({text.data(), size})) return false;
    // Without room for more text, there may be some.
    more = !bytes.empty() || size == text.size();
    const bool too_much = text_bytes_ > free_expansion + max_expansion * read_bytes_;
    lacks_memory_ = status == Decompressor::Status::no_memory;
    if (too_much || status != Decompressor::Status::good) fail();
  }
  return true;
}

bool CompressedRequest::finish() {
  if (stopped_) return true;
  const bool complete = data_ == nullptr ? is_plain() : data_->complete();
  if (complete || text_->done()) return text_->finish();
  fail();
  return true;
}

void CompressedRequest::fail() {
  decoded_ = text_bytes_ > 0 ? Decoded::some : Decoded::none;
  stop();
}

void CompressedRequest::stop() {
  stopped_ = true;
  data_.reset();
  text_->stop();
}

}  // namespace evenkeel
