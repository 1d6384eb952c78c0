#include "inference/compressed_request.h"

#include <array>

namespace evenkeel {

bool CompressedRequest::read(std::string_view bytes) {
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
  if (data_->complete() || text_->done()) return text_->finish();
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
