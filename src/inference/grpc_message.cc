#include "evenkeel/inference/grpc_message.h"

#include <algorithm>

namespace evenkeel {
namespace {

std::size_t length_in(std::string_view prefix) {
  std::size_t length = 0;
  for (const char c : prefix.substr(1, 4)) length = length << 8 | static_cast<unsigned char>(c);
  return length;
}

/// No more than this is reserved for a message before its bytes are in.
constexpr std::size_t max_reserved = 1 << 20;

}  // namespace

GrpcMessageReader::Step GrpcMessageReader::read(std::string_view& bytes) {
  message_ = {};
  if (consumed_) {
    buffered_.clear();
    consumed_ = false;
  }
  const auto buffer_until = [&](std::size_t size) {
    const std::size_t count = std::min(size - buffered_.size(), bytes.size());
    buffered_.append(bytes.substr(0, count));
    bytes.remove_prefix(count);
    return buffered_.size() == size;
  };

  const bool in_place = buffered_.empty() && bytes.size() >= grpc_prefix_bytes;
  if (!in_place && buffered_.size() < grpc_prefix_bytes && !buffer_until(grpc_prefix_bytes)) {
    return Step::more;
  }
  const std::string_view prefix = in_place ? bytes : std::string_view(buffered_);
  if (prefix[0] != 0 && prefix[0] != 1) return Step::malformed;
  compressed_ = prefix[0] == 1;
  const std::size_t length = length_in(prefix);
  if (length > max_message_bytes_) return Step::too_large;

  const std::size_t size = grpc_prefix_bytes + length;
  if (in_place && bytes.size() >= size) {
    message_ = bytes.substr(grpc_prefix_bytes, length);
    bytes.remove_prefix(size);
    return Step::message;
  }
  if (buffered_.size() <= grpc_prefix_bytes) buffered_.reserve(std::min(size, max_reserved));
  if (!buffer_until(size)) return Step::more;
  message_ = std::string_view(buffered_).substr(grpc_prefix_bytes);
  consumed_ = true;
  return Step::message;
}

void append_grpc_frame(std::string& out, std::string_view message) {
  out.reserve(out.size() + grpc_prefix_bytes + message.size());
  out += '\0';
  for (int shift = 24; shift >= 0; shift -= 8) out += static_cast<char>(message.size() >> shift);
  out += message;
}

}  // namespace evenkeel
