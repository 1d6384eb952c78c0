#include "evenkeel/base/bytes.h"

#include <new>

namespace evenkeel {
namespace {

constexpr unsigned keep = 32;  // of each size and thread: what stays after a burst

struct BlockList {
  char* blocks[keep];
  unsigned count = 0;
  bool closed = false;  // the thread has ended: what is given back now goes to the heap
  ~BlockList() {
    closed = true;
    while (count > 0) ::operator delete(blocks[--count]);
  }
};

thread_local BlockList small_blocks;
thread_local BlockList large_blocks;

BlockList& list_of(std::uint32_t size) { return size == Block::small ? small_blocks : large_blocks; }

}  // namespace

Block Block::take(std::uint32_t size) {
  BlockList& list = list_of(size);
  Block block;
  block.data_ =
      list.count > 0 ? list.blocks[--list.count] : static_cast<char*>(::operator new(size));
  block.size_ = size;
  return block;
}

Block::~Block() {
  if (data_ == nullptr) return;
  BlockList& list = list_of(size_);
  if (list.count < keep && !list.closed) {
    list.blocks[list.count++] = data_;
  } else {
    ::operator delete(data_);
  }
}

}  // namespace evenkeel
