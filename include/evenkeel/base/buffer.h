// Blocks of memory for reading into, taken when bytes arrive and returned when they are consumed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>

namespace evenkeel {

/// A recycled block of one of four sizes. Empty when moved from. Thread: any; it returns to the
/// free list of the thread that drops it.
class Block {
 public:
  static constexpr std::uint32_t tiny = 2 * 1024;  ///< a body that arrived whole
  static constexpr std::uint32_t small =
      16 * 1024;  ///< a message head or a chunk of a token stream
  static constexpr std::uint32_t large =
      64 * 1024;  ///< a body of unknown length: the most that is buffered of it
  static constexpr std::uint32_t huge =
      256 * 1024;  ///< a long body of known length: with half the calls, half the cost of 64 KiB

  Block() = default;
  static Block take(std::uint32_t size);
  /// True if this thread uses so many huge blocks that large ones must do.
  static bool huge_ones_are_scarce();
  Block(Block&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  Block& operator=(Block&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~Block() {
    if (data_ != nullptr) recycle();
  }

  explicit operator bool() const { return data_ != nullptr; }
  char* data() const { return data_; }
  std::uint32_t size() const { return size_; }

 private:
  void recycle();

  char* data_ = nullptr;
  std::uint32_t size_ = 0;
};

/// A block of which [begin, end) holds bytes that are not consumed yet.
struct ReadBuffer {
  Block block;
  std::uint32_t begin = 0;
  std::uint32_t end = 0;

  bool empty() const { return begin == end; }
  std::string_view bytes() const { return {block.data() + begin, end - begin}; }
  char* free_begin() const { return block.data() + end; }
  std::uint32_t free_size() const { return block.size() - end; }
  void release() {
    block = Block();
    begin = end = 0;
  }
};

}  // namespace evenkeel
