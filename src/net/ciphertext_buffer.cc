#include "net/ciphertext_buffer.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace evenkeel {

bool CiphertextBuffer::append(std::string_view bytes, std::uint32_t block_size) {
  for (ReadBuffer* buffer : {&first_, &second_}) {
    if (bytes.empty()) return true;
    if (buffer == &first_ && !second_.empty()) continue;
    if (!buffer->block) buffer->block = Block::take(buffer == &first_ ? block_size : Block::large);
    const std::size_t count = std::min<std::size_t>(bytes.size(), buffer->free_size());
    std::memcpy(buffer->free_begin(), bytes.data(), count);
    buffer->end += static_cast<std::uint32_t>(count);
    bytes.remove_prefix(count);
  }
  return bytes.empty();
}

void CiphertextBuffer::remove(std::size_t count) {
  const std::size_t of_first = std::min<std::size_t>(count, first_.end - first_.begin);
  first_.begin += static_cast<std::uint32_t>(of_first);
  if (!first_.empty()) return;
  first_.release();
  second_.begin += static_cast<std::uint32_t>(count - of_first);
  if (second_.empty()) {
    second_.release();
  } else {
    first_ = std::exchange(second_, {});
  }
}

}  // namespace evenkeel
