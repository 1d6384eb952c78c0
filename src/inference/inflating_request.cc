#include "inference/inflating_request.h"

#include <array>

namespace evenkeel {
namespace {

// As inflateInit2 takes it.
int window_bits(InflatingRequest::Format format, char first_byte) {
  constexpr int largest_window = 15;
  constexpr int gzip_header = 16;
  if (format == InflatingRequest::Format::gzip) return largest_window + gzip_header;
  // Some clients send `deflate` without zlib's header, whose first byte ends in 8 (RFC 1950).
  return (first_byte & 0x0f) == 8 ? largest_window : -largest_window;
}

}  // namespace

InflatingRequest::~InflatingRequest() {
  if (begun_) inflateEnd(&zlib_);
}

bool InflatingRequest::begin(char first_byte) {
  begun_ = inflateInit2(&zlib_, window_bits(format_, first_byte)) == Z_OK;
  return begun_;
}

bool InflatingRequest::read(std::string_view bytes) {
  if (bytes.empty() || ended_ || done()) return true;
  if (!begun_ && !begin(bytes.front())) {
    stop();
    return true;
  }
  read_bytes_ += bytes.size();
  zlib_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  zlib_.avail_in = static_cast<uInt>(bytes.size());
  bool more = true;
  while (more) {
    if (!inflate_next(more)) return false;
  }
  return true;
}

// Reads the next piece of text. False: the text is malformed.
bool InflatingRequest::inflate_next(bool& more) {
  std::array<char, 16 * 1024> text;
  zlib_.next_out = reinterpret_cast<Bytef*>(text.data());
  zlib_.avail_out = static_cast<uInt>(text.size());
  const int status = inflate(&zlib_, Z_NO_FLUSH);
  const std::size_t size = text.size() - zlib_.avail_out;
  text_bytes_ += size;
  ended_ = status == Z_STREAM_END;
  // Without room for more text, there may be some.
  more = status == Z_OK && (zlib_.avail_in > 0 || zlib_.avail_out == 0);
  if (!text_->read({text.data(), size})) return false;

  const bool damaged = status != Z_OK && status != Z_STREAM_END && status != Z_BUF_ERROR;
  if (damaged || text_bytes_ > free_expansion + max_expansion * read_bytes_) {
    more = false;
    stop();
  }
  return true;
}

bool InflatingRequest::finish() {
  if (stopped_) return true;
  if (ended_ || text_->done()) return text_->finish();
  stop();
  return true;
}

void InflatingRequest::stop() {
  stopped_ = true;
  text_->stop();
}

}  // namespace evenkeel
