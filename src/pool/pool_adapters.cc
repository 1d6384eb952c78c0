// What a pool's scheduler learns of LoRA adapters from its engines.
#include <algorithm>
#include <array>
#include <cstddef>
#include <mutex>
#include <span>
#include <utility>

#include "pool/pool_scheduler.h"

namespace evenkeel {
namespace {

constexpr std::size_t max_adapter_names = 1u << 16;  // no engine serves as many

/// True unless the name is a second one: some engines offer an adapter by two.
bool is_own_name(const AdapterName& each) { return each.name == each.adapter; }

/// Stops at `limit`: a list may be long, and the scheduler's lock is held.
std::size_t count_adapters(const OfferedAdapters& offered, std::size_t limit) {
  std::size_t count = 0;
  for (auto each = offered.begin(); each != offered.end() && count < limit; ++each) {
    count += is_own_name(*each) ? 1 : 0;
  }
  return count;
}

/// A name keeps its first adapter. A hash of 0 stands for none.
AdapterNames adapter_names_of(const Backends& backends) {
  AdapterNames names;
  const auto add = [&names](std::uint64_t name, std::uint64_t adapter) {
    if (name != 0 && adapter != 0 && names.size() < max_adapter_names) names.emplace(name, adapter);
  };
  for (const BackendPtr& backend : backends) {
    const EngineState& engine = backend->signals().engine();
    const auto offered = engine.offered();
    for (const AdapterName& each : *offered) add(each.name, each.adapter);
    const LoadedAdapters* const loaded = engine.adapters();
    for (std::size_t i = 0; loaded != nullptr && i < loaded->size(); ++i) {
      add((*loaded)[i], (*loaded)[i]);
    }
  }
  return names;
}

}  // namespace

/// An engine that offers no more adapters than it has slots for has loaded all of them: vLLM does
/// so when it begins to offer one.
void PoolScheduler::read_adapters(std::uint32_t slot, Instant as_of) {
  const EngineState& engine = slots_[slot].backend->signals().engine();
  const LoadedAdapters* const loaded = engine.adapters();
  const std::uint32_t room = engine.adapter_slots();
  if (loaded == nullptr && room == 0) return;
  std::array<std::uint64_t, 2 * LoadedAdapters::capacity> held;
  std::size_t count = 0;
  for (std::size_t i = 0; loaded != nullptr && i < loaded->size(); ++i) {
    held[count++] = (*loaded)[i];
  }
  const auto is_unknown = [this](std::uint64_t each) { return !adapter_names_.contains(each); };
  if (adapter_names_.size() < max_adapter_names &&
      std::ranges::any_of(std::span(held).first(count), is_unknown)) {
    knows_adapter_names_ = false;
  }
  const auto offered = engine.offered();
  if (count_adapters(*offered, LoadedAdapters::capacity + 1) <=
      std::min<std::size_t>(room, LoadedAdapters::capacity)) {
    const auto used = std::span(held).first(count);
    for (const AdapterName& each : *offered) {
      if (is_own_name(each) && std::ranges::find(used, each.adapter) == used.end())
        held[count++] = each.adapter;
    }
  }
  scheduler_.adapters(slot, std::span(held).first(count), room, as_of);
}

/// True if engines offer or use other adapters than when the table was begun.
bool PoolScheduler::adapter_names_changed() {
  bool changed = !std::exchange(knows_adapter_names_, true);
  for (std::uint32_t i = 0; i < used_slots_; ++i) {
    Slot& slot = slots_[i];
    if (slot.users == 0) continue;
    const std::uint64_t revision = slot.backend->signals().engine().offered_revision();
    changed |= std::exchange(slot.offered, revision) != revision;
  }
  return changed;
}

/// Begins anew, so that names which are gone are forgotten. Tens of thousands of names take
/// milliseconds, for which no request waits: the lock is held to copy a few pointers, and to swap.
void PoolScheduler::learn_adapter_names() {
  Backends backends;
  backends.reserve(capacity_);
  {
    std::lock_guard lock(mutex_);
    for (std::uint32_t i = 0; i < used_slots_; ++i) {
      if (slots_[i].users > 0) backends.push_back(slots_[i].backend);
    }
  }
  AdapterNames names = adapter_names_of(backends);
  std::lock_guard lock(mutex_);
  std::swap(adapter_names_, names);
}

}  // namespace evenkeel
