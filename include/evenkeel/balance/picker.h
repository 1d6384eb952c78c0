// Who answers the next request. docs/pickers.md compares the pickers.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "evenkeel/balance/backend.h"
#include "evenkeel/balance/hint.h"

namespace evenkeel {

/// Chooses a backend.
///
/// Never one that the request has tried, never one that is closed or full, and one that is left
/// alone
/// (`Load::avoided`, or beyond its memory guard) only when all that the request has not tried are.
/// Thread: one worker's own. Never blocks, never allocates.
class Picker {
 public:
  virtual ~Picker() = default;
  /// Null when nobody may be picked now. The choice is free until `Backend::try_acquire` succeeds
  /// on it.
  virtual const BackendPtr* pick(const Hint& hint) = 0;
};

/// What a picker is made from.
struct PickerOptions {
  std::shared_ptr<const Backends> backends;  ///< kept alive by the picker
  double load_factor = 1.25;      ///< consistent-hash: most load over the mean load, more than 1
  double memory_guard = 0;        ///< gpu: see PoolSpec; 0: none
  bool observed_weights = false;  ///< weighted: goes by Load::learned_weight where there is one
};

/// Makes one worker's picker; what all of them can share is computed once, when the maker is made.
/// Different seeds keep workers from walking in step.
using PickerFactory = std::function<std::unique_ptr<Picker>(std::uint64_t seed)>;

/// An empty function for a name that is not in `known_pickers()`.
PickerFactory picker_factory(std::string_view name, PickerOptions setup);

/// One picker; null for an unknown name.
std::unique_ptr<Picker> make_picker(std::string_view name, PickerOptions setup, std::uint64_t seed);

/// In the order of the configuration reference.
std::vector<std::string_view> known_pickers();

}  // namespace evenkeel
