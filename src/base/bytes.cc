#include "evenkeel/base/bytes.h"

#include <new>

namespace evenkeel {
namespace {

// What stays with a thread after a burst: as many as requests are under way on a busy worker, since
// the heap is slow with pieces of this size; 4.5 MiB and 2 MiB at the most.
constexpr unsigned keep_small = 256;
constexpr unsigned keep_large = 32;

/// Blocks whose beginnings lie a power of two apart would fight for the same lines of the cache.
constexpr std::size_t stagger = 192;

/// One thread's spare blocks of a size. Trivial, so that reaching them costs no check.
struct BlockList {
  char* blocks[keep_small];
  unsigned count;
  unsigned most;  // 0 until the thread has taken a block, and again when it ends
};

constinit thread_local BlockList tiny_blocks{};
constinit thread_local BlockList small_blocks{};
constinit thread_local BlockList large_blocks{};

struct Keeper {
  void open() {
    tiny_blocks.most = small_blocks.most = keep_small;
    large_blocks.most = keep_large;
  }
  ~Keeper() {
    for (BlockList* list : {&tiny_blocks, &small_blocks, &large_blocks}) {
      list->most = 0;
      while (list->count > 0) ::operator delete(list->blocks[--list->count]);
    }
  }
};
thread_local Keeper keeper;

[[gnu::noinline]] char* take_from_heap(std::uint32_t size) {
  keeper.open();
  return static_cast<char*>(::operator new(size + stagger));
}

BlockList& list_of(std::uint32_t size) {
  if (size == Block::small) return small_blocks;
  return size == Block::large ? large_blocks : tiny_blocks;
}

}  // namespace

Block Block::take(std::uint32_t size) {
  BlockList& list = list_of(size);
  Block block;
  block.data_ = list.count > 0 ? list.blocks[--list.count] : take_from_heap(size);
  block.size_ = size;
  return block;
}

void Block::give_back() {
  BlockList& list = list_of(size_);
  if (list.count < list.most) {
    list.blocks[list.count++] = data_;
  } else {
    ::operator delete(data_);
  }
}

}  // namespace evenkeel
