// An array that one thread grows while others read it.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <utility>

namespace evenkeel {

/// Items by index, in chunks that double in size. Chunks never move and live as long as the array.
/// Each begins on its own cache line, so that the arrays of two workers share none.
///
/// Thread: `at` on one thread, `find` on any.
template <class T>
class ChunkedArray {
 public:
  static constexpr std::uint32_t limit = 4 * ((1u << 16) - 1);  ///< indices end before this

  ChunkedArray() = default;
  ChunkedArray(const ChunkedArray&) = delete;
  ChunkedArray& operator=(const ChunkedArray&) = delete;
  ~ChunkedArray() {
    for (std::size_t i = 0; i < chunks_.size(); ++i) {
      if (T* chunk = chunks_[i].load(std::memory_order_relaxed)) {
        std::destroy_n(chunk, size_of(i));
        ::operator delete(chunk, line);
      }
    }
  }

  /// The item, made if it does not exist yet. Its address never changes. REQUIRES: index < limit.
  T& at(std::uint32_t index) {
    const Position position = position_of(index);
    T* chunk = chunks_[position.chunk].load(std::memory_order_relaxed);
    if (chunk == nullptr) [[unlikely]]
      chunk = make(position.chunk);
    return chunk[position.offset];
  }

  /// The item, or null if its chunk does not exist yet.
  const T* find(std::uint32_t index) const {
    const Position position = position_of(index);
    const T* chunk = chunks_[position.chunk].load(std::memory_order_acquire);
    return chunk == nullptr ? nullptr : chunk + position.offset;
  }
  /// Calls `visit(index, item)` for the items of all chunks that exist. Thread: any.
  template <class Visit>
  void for_each(Visit visit) {
    for (std::size_t i = 0; i < chunks_.size(); ++i) {
      T* const chunk = chunks_[i].load(std::memory_order_acquire);
      if (chunk == nullptr) continue;
      const auto first = static_cast<std::uint32_t>(size_of(i) - size_of(0));
      for (std::uint32_t k = 0; k < size_of(i); ++k) visit(first + k, chunk[k]);
    }
  }
  T* find(std::uint32_t index) { return const_cast<T*>(std::as_const(*this).find(index)); }

 private:
  static constexpr std::align_val_t line{64};
  static_assert(alignof(T) <= 64);

  struct Position {
    std::size_t chunk;
    std::size_t offset;
  };
  static constexpr std::size_t size_of(std::size_t chunk) { return std::size_t{4} << chunk; }
  static Position position_of(std::uint32_t index) {
    const std::uint32_t shifted = index + 4;
    const auto chunk = static_cast<std::size_t>(std::bit_width(shifted) - 3);
    return {chunk, shifted - size_of(chunk)};
  }

  [[gnu::noinline]] T* make(std::size_t index) {
    auto* memory = static_cast<T*>(::operator new(size_of(index) * sizeof(T), line));
    std::uninitialized_value_construct_n(memory, size_of(index));
    // Release: a reader that sees the chunk sees its items constructed.
    chunks_[index].store(memory, std::memory_order_release);
    return memory;
  }

  std::array<std::atomic<T*>, 16> chunks_{};
};

}  // namespace evenkeel
