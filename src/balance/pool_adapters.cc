// What a pool's scheduler learns of LoRA adapters from its engines.
#include <algorithm>
#include <array>
#include <new>
#include <span>
#include <utility>

#include "balance/pool_scheduler.h"

namespace evenkeel {

/// An engine that offers no more adapters than it has slots for has loaded all of them: vLLM does
/// so when it begins to offer one.
void PoolScheduler::read_adapters(std::uint32_t slot, Instant as_of) {
  const EngineState& engine = slots_[slot].backend->load().signals().engine();
  const LoadedAdapters* const loaded = engine.adapters();
  const std::uint32_t room = engine.adapter_slots();
  if (loaded == nullptr && room == 0) return;
  std::array<std::uint64_t, 2 * LoadedAdapters::capacity> held;
  std::size_t count = 0;
  for (std::size_t i = 0; loaded != nullptr && i < loaded->size(); ++i) {
    held[count++] = (*loaded)[i];
  }
  const auto is_unknown = [this](std::uint64_t each) { return adapter_names_.find(each) == 0; };
  if (adapter_names_.size() < AdapterNames::capacity &&
      std::ranges::any_of(std::span(held).first(count), is_unknown)) {
    knows_adapter_names_ = false;
  }
  const auto offered = engine.offered();
  const auto is_own_name = [](const AdapterName& each) { return each.name == each.adapter; };
  if (std::ranges::count_if(*offered, is_own_name) <=
      std::min<std::int64_t>(room, LoadedAdapters::capacity)) {
    const auto used = std::span(held).first(count);
    for (const AdapterName& each : *offered) {
      if (is_own_name(each) && std::ranges::find(used, each.adapter) == used.end())
        held[count++] = each.adapter;
    }
  }
  scheduler_.adapters(slot, std::span(held).first(count), room, as_of);
}

/// Begins anew when an engine offers others, so that names which are gone are forgotten.
void PoolScheduler::learn_adapter_names() {
  bool changed = !std::exchange(knows_adapter_names_, true);
  for (std::uint32_t i = 0; i < used_slots_; ++i) {
    Slot& slot = slots_[i];
    if (slot.users == 0) continue;
    const std::uint64_t revision = slot.backend->load().signals().engine().offered_revision();
    changed |= std::exchange(slot.offered, revision) != revision;
  }
  if (!changed) return;
  try {
    read_adapter_names();
  } catch (const std::bad_alloc&) {
    knows_adapter_names_ = false;  // the next tick tries again
  }
}

void PoolScheduler::read_adapter_names() {
  adapter_names_.clear();
  for (std::uint32_t i = 0; i < used_slots_; ++i) {
    if (slots_[i].users == 0) continue;
    const EngineState& engine = slots_[i].backend->load().signals().engine();
    const auto offered = engine.offered();
    for (const AdapterName& each : *offered) adapter_names_.add(each.name, each.adapter);
    const LoadedAdapters* const loaded = engine.adapters();
    for (std::size_t k = 0; loaded != nullptr && k < loaded->size(); ++k) {
      adapter_names_.add((*loaded)[k], (*loaded)[k]);
    }
  }
}

}  // namespace evenkeel
