#include "evenkeel/base/memory_reserve.h"

#include <sys/mman.h>

#include <atomic>
#include <cstddef>
#include <new>

namespace evenkeel {
namespace {

constexpr std::size_t reserve_bytes = std::size_t{8} * 1024 * 1024;

constinit std::atomic<MemoryPressureLevel*> reported_to{nullptr};
constinit std::atomic<void*> reserve{nullptr};  // never touched: it takes address space only
constinit thread_local bool fails_at_once = false;

void on_failed_allocation() {
  if (MemoryPressureLevel* const pressure = reported_to.load()) {
    pressure->set(MemoryPressure::critical);
  }
  void* const spare = fails_at_once ? nullptr : reserve.exchange(nullptr);
  if (spare == nullptr) throw std::bad_alloc();
  munmap(spare, reserve_bytes);  // and the allocation is tried again
}

}  // namespace

MemoryReserve::MemoryReserve(MemoryPressureLevel& pressure) {
  reported_to = &pressure;
  refill();
  std::set_new_handler(on_failed_allocation);
}

MemoryReserve::~MemoryReserve() {
  std::set_new_handler(nullptr);
  reported_to = nullptr;
  if (void* const spare = reserve.exchange(nullptr)) munmap(spare, reserve_bytes);
}

// NOLINTNEXTLINE(readability-convert-member-functions-to-static)
void MemoryReserve::refill() {
  if (reserve.load() != nullptr) return;
  void* const taken =
      mmap(nullptr, reserve_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (taken != MAP_FAILED) reserve = taken;
}

void fail_allocations_at_once() { fails_at_once = true; }

}  // namespace evenkeel
