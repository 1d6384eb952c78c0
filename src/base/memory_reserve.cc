#include "evenkeel/base/memory_reserve.h"

#include <malloc.h>
#include <sys/mman.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <new>
#include <thread>
#include <utility>

#include "evenkeel/base/clock.h"

namespace evenkeel {
namespace {

constexpr std::size_t reserve_bytes = std::size_t{8} * 1024 * 1024;

constexpr Duration wait_step = std::chrono::milliseconds(20);
/// Shorter than systemd's watchdog.
constexpr Duration max_wait = std::chrono::seconds(3);

constinit std::atomic<MemoryPressureLevel*> reported_to{nullptr};
constinit std::atomic<void*> reserve{nullptr};  // never touched: it takes address space only
constinit thread_local bool fails_at_once = false;
constinit thread_local bool may_wait = true;

constinit thread_local Instant wait_began{};
constinit thread_local Instant wait_ended{};

/// Waits a little: requests end meanwhile, and no new ones begin. An allocation that fails again
/// right after continues the wait.
void wait_for_memory() {
  const Instant now = Clock::now();
  if (now - wait_ended >= wait_step) {
    wait_began = now;
    malloc_trim(0);
  } else if (now - wait_began >= max_wait) {
    throw std::bad_alloc();
  }
  std::this_thread::sleep_for(wait_step);
  wait_ended = Clock::now();
}

/// The new-handler: when it returns, the allocation is tried again.
void on_failed_allocation() {
  if (MemoryPressureLevel* const pressure = reported_to.load()) {
    pressure->set(MemoryPressure::critical);
  }
  if (fails_at_once) throw std::bad_alloc();
  if (void* const spare = reserve.exchange(nullptr)) {
    munmap(spare, reserve_bytes);
  } else if (may_wait) {
    wait_for_memory();
  } else {
    throw std::bad_alloc();
  }
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

NoWaitForMemory::NoWaitForMemory() : before_(std::exchange(may_wait, false)) {}

NoWaitForMemory::~NoWaitForMemory() { may_wait = before_; }

void fail_allocations_at_once() { fails_at_once = true; }

}  // namespace evenkeel
