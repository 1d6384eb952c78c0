#include "evenkeel/base/pool_allocator.h"

#include <new>

#include "evenkeel/base/free_memory.h"
#include "recycles.h"

namespace evenkeel::detail {
namespace {

enum class Phase : unsigned char { unopened, open, ended };
constinit thread_local Phase phase = Phase::unopened;

/// Empties a thread's free lists when the thread ends.
struct ThreadExitCleanup {
  void open() {
    phase = Phase::open;
    set_slots();
  }
  static void set_slots() {
    for (std::size_t i = 0; i < FreeLists::classes; ++i) {
      free_lists.slots_left[i] = FreeLists::max_cached(i);
    }
  }
  static void empty() {
    for (std::size_t i = 0; i < FreeLists::classes; ++i) {
      while (FreeNode* node = free_lists.head[i]) {
        free_lists.head[i] = node->next;
        ::operator delete(node);
      }
    }
  }
  ~ThreadExitCleanup() {
    phase = Phase::ended;
    empty();
    for (unsigned& slots_left : free_lists.slots_left) slots_left = 0;  // frees go to the heap
  }
};

thread_local ThreadExitCleanup thread_exit_cleanup;

}  // namespace

constinit thread_local FreeLists free_lists{};

void* allocate_from_heap(std::size_t size) {
  if (recycles && phase == Phase::unopened) thread_exit_cleanup.open();
  const std::size_t whole =
      (size + FreeLists::granule - 1) / FreeLists::granule * FreeLists::granule;
  return ::operator new(whole);
}

void free_to_heap(void* memory, std::size_t) noexcept { ::operator delete(memory); }

}  // namespace evenkeel::detail

namespace evenkeel {

void release_cached_objects() {
  using namespace detail;
  if (phase != Phase::open) return;
  ThreadExitCleanup::empty();
  ThreadExitCleanup::set_slots();
}

}  // namespace evenkeel
