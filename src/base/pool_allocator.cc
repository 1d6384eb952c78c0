#include "evenkeel/base/pool_allocator.h"

#include <new>

namespace evenkeel {
namespace {

#if defined(__SANITIZE_ADDRESS__)
constexpr bool recycles = false;  // the sanitizer must see every release
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
constexpr bool recycles = false;
#else
constexpr bool recycles = true;
#endif
#else
constexpr bool recycles = true;
#endif

constexpr std::size_t granule = 64;
constexpr std::size_t classes = 8192 / granule;
constexpr unsigned keep_per_class = 256;  // bounds what a burst leaves behind

struct FreeNode {
  FreeNode* next;
};

struct FreeLists {
  FreeNode* head[classes] = {};
  unsigned count[classes] = {};

  ~FreeLists() {
    for (auto*& list : head) {
      while (list != nullptr) {
        FreeNode* node = list;
        list = node->next;
        ::operator delete(node);
      }
    }
    for (auto& kept : count) kept = keep_per_class;  // what is given back later goes to the heap
  }
};

thread_local FreeLists lists;

std::size_t class_of(std::size_t size) { return (size - 1) / granule; }

}  // namespace

void* take_pooled(std::size_t size) {
  const std::size_t index = class_of(size);
  if (!recycles || index >= classes) return ::operator new(size);
  FreeNode* node = lists.head[index];
  if (node == nullptr) return ::operator new((index + 1) * granule);
  lists.head[index] = node->next;
  --lists.count[index];
  return node;
}

void give_pooled(void* memory, std::size_t size) noexcept {
  const std::size_t index = class_of(size);
  if (!recycles || index >= classes || lists.count[index] >= keep_per_class) {
    ::operator delete(memory);
    return;
  }
  auto* node = static_cast<FreeNode*>(memory);
  node->next = lists.head[index];
  lists.head[index] = node;
  ++lists.count[index];
}

}  // namespace evenkeel
