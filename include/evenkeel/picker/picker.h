// Chooses the backend of the next request. docs/balancing.md compares the pickers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "evenkeel/backend/backend.h"
#include "evenkeel/config/config.h"
#include "evenkeel/picker/hint.h"

namespace evenkeel {

/// Chooses a backend.
///
/// Never chooses one that the request has tried, that is out of rotation, or that is full. Chooses
/// a deprioritized one (in back-off, or above its memory guard) only if every backend that the
/// request has not tried is deprioritized. Thread: one worker's own. Never blocks, never allocates.
class Picker {
 public:
  virtual ~Picker() = default;
  /// Null when no backend may be picked now. The choice takes no slot: that is
  /// `Backend::try_acquire`, which may fail.
  virtual const BackendPtr* pick(const Hint& hint) = 0;
  /// The cost by which the last `pick` has compared the backend with this index. Nothing: it was
  /// not looked at, or the picker compares no costs.
  virtual std::optional<double> compared_cost(std::size_t /*index*/, Instant /*now*/) {
    return std::nullopt;
  }
  /// The `Hint::key` of a request that is new to the pool, and its vote on which prompts are common
  /// in the pool: once for each request, before its first pick. Nothing from pickers that do not
  /// look at prompts.
  virtual std::optional<std::uint64_t> key_of(const PromptBeginning& /*prompt*/) {
    return std::nullopt;
  }
};

/// The input of a picker.
struct PickerOptions {
  std::shared_ptr<const Backends> backends;  ///< kept alive by the picker
  PickerChoice choice{};
};

/// Makes one worker's picker. What all workers can share is computed once, with the factory.
/// Different seeds keep workers from picking in lockstep.
using PickerFactory = std::function<std::unique_ptr<Picker>(std::uint64_t seed)>;

/// Empty for a name that is not in `picker_names()`.
PickerFactory picker_factory(PickerOptions options);

/// One picker; null for an unknown name.
std::unique_ptr<Picker> make_picker(PickerOptions options, std::uint64_t seed);

}  // namespace evenkeel
