#include "admin/gzip.h"

#include <zlib.h>

#include <limits>

namespace evenkeel {
namespace {

constexpr int gzip_window_bits = 15 + 16;  // zlib: 16 more asks for gzip's header
constexpr int memory_level = 8;

}  // namespace

std::string gzip(std::string_view text) {
  z_stream stream{};
  if (text.size() > std::numeric_limits<uInt>::max() ||
      deflateInit2(&stream, Z_BEST_SPEED, Z_DEFLATED, gzip_window_bits, memory_level,
                   Z_DEFAULT_STRATEGY) != Z_OK) {
    return {};
  }
  std::string compressed(deflateBound(&stream, static_cast<uLong>(text.size())), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));  // zlib only reads it
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(compressed.data());
  stream.avail_out = static_cast<uInt>(compressed.size());
  const bool complete = deflate(&stream, Z_FINISH) == Z_STREAM_END;
  compressed.resize(complete ? stream.total_out : 0);
  compressed.shrink_to_fit();
  deflateEnd(&stream);
  return compressed;
}

std::string gunzip(std::string_view compressed) {
  z_stream stream{};
  inflateInit2(&stream, gzip_window_bits);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(compressed.data()));
  stream.avail_in = static_cast<uInt>(compressed.size());
  std::string text;
  int status = Z_OK;
  while (status == Z_OK) {
    const std::size_t size = text.size();
    text.resize(size + 16 * 1024);
    stream.next_out = reinterpret_cast<Bytef*>(text.data() + size);
    stream.avail_out = static_cast<uInt>(text.size() - size);
    status = inflate(&stream, Z_NO_FLUSH);
  }
  text.resize(stream.total_out);
  inflateEnd(&stream);
  return text;
}

}  // namespace evenkeel
