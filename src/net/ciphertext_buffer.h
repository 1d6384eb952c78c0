// What TLS has encrypted and the kernel has not taken.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "evenkeel/base/buffer.h"

namespace evenkeel {

/// Up to 128 KiB of ciphertext in two blocks; holds no block while it is empty.
class CiphertextBuffer {
 public:
  bool empty() const { return first_.empty(); }
  std::size_t size() const { return first_.end - first_.begin + second_.end - second_.begin; }
  /// False when not all of it fits. The first block, if there is none yet, is of `block_size`.
  bool append(std::string_view bytes, std::uint32_t block_size);
  std::string_view first() const { return first_.bytes(); }
  std::string_view second() const { return second_.bytes(); }
  /// Removes bytes from the front: `first()` comes before `second()`.
  void remove(std::size_t count);

 private:
  ReadBuffer first_;
  ReadBuffer second_;
};

}  // namespace evenkeel
