#include "evenkeel/base/buffer.h"

#include <sys/mman.h>

#include <cstdint>

#include "evenkeel/base/free_memory.h"
#include "evenkeel/base/out_of_memory.h"
#include "recycles.h"

namespace evenkeel {
namespace {

// How many blocks a thread caches after a burst: about the requests in flight on a busy worker,
// since the heap is slow for these sizes, and new pages are. At most 18 MiB of tiny and small
// ones, 4 MiB of large ones and 12 MiB of huge ones.
constexpr unsigned max_cached_small = 1024;
constexpr unsigned max_cached_large = 64;
constexpr unsigned max_cached_huge = 48;

// The number of huge blocks in use on one thread from which large ones must do: 16 MiB.
constexpr int many_huge = 64;

/// Blocks that start a power of two apart would compete for the same cache lines.
constexpr std::size_t stagger = 192;

constexpr std::size_t page_size = 4096;

/// True for large blocks, so that memory taken for many slow readers returns to the system after
/// them; heap fragmentation would keep it. Pages that were never written take none.
constexpr bool is_mapped(std::uint32_t size) { return size >= Block::large; }

char* map_block(std::uint32_t size) {
  void* mapped =
      mmap(nullptr, size + page_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) out_of_memory();
  static constinit thread_local std::size_t blocks_mapped = 0;
  return static_cast<char*>(mapped) + blocks_mapped++ * stagger % page_size;
}

void free_to_heap(char* data, std::uint32_t size) {
  if (!is_mapped(size) || !recycles) return ::operator delete(data);
  munmap(data - reinterpret_cast<std::uintptr_t>(data) % page_size, size + page_size);
}

/// One thread's cached blocks of one size. Trivially constructed, so that access needs no
/// initialisation check.
struct BlockList {
  char* blocks[max_cached_small];
  unsigned count;
  unsigned capacity;  // 0 before the thread's first block and after its exit
};

constinit thread_local BlockList tiny_blocks{};
constinit thread_local BlockList small_blocks{};
constinit thread_local BlockList large_blocks{};
constinit thread_local BlockList huge_blocks{};
constinit thread_local int huge_in_use = 0;

struct ThreadExitCleanup {
  void open() {
    tiny_blocks.capacity = small_blocks.capacity = max_cached_small;
    large_blocks.capacity = max_cached_large;
    huge_blocks.capacity = max_cached_huge;
  }
  static void empty(BlockList& list, std::uint32_t size) {
    while (list.count > 0) free_to_heap(list.blocks[--list.count], size);
  }
  static void empty_all() {
    empty(tiny_blocks, Block::tiny);
    empty(small_blocks, Block::small);
    empty(large_blocks, Block::large);
    empty(huge_blocks, Block::huge);
  }
  ~ThreadExitCleanup() {
    tiny_blocks.capacity = small_blocks.capacity = 0;
    large_blocks.capacity = huge_blocks.capacity = 0;
    empty_all();
  }
};
thread_local ThreadExitCleanup thread_exit_cleanup;

[[gnu::noinline]] char* allocate_from_heap(std::uint32_t size) {
  if (!recycles) return static_cast<char*>(::operator new(size));
  thread_exit_cleanup.open();
  return is_mapped(size) ? map_block(size) : static_cast<char*>(::operator new(size + stagger));
}

BlockList& list_of(std::uint32_t size) {
  switch (size) {
    case Block::small: return small_blocks;
    case Block::large: return large_blocks;
    case Block::huge: return huge_blocks;
    default: return tiny_blocks;
  }
}

}  // namespace

void release_cached_blocks() { ThreadExitCleanup::empty_all(); }

Block Block::take(std::uint32_t size) {
  BlockList& list = list_of(size);
  Block block;
  block.data_ = list.count > 0 ? list.blocks[--list.count] : allocate_from_heap(size);
  block.size_ = size;
  if (size == huge) ++huge_in_use;
  return block;
}

bool Block::huge_ones_are_scarce() { return huge_in_use >= many_huge; }

void Block::recycle() {
  BlockList& list = list_of(size_);
  if (size_ == huge) --huge_in_use;
  if (list.count < list.capacity) {
    list.blocks[list.count++] = data_;
  } else {
    free_to_heap(data_, size_);
  }
}

}  // namespace evenkeel
