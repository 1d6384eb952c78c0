// What a request to a model tells the pool whose scheduler places it (picker `expected-time`).
#pragma once

#include <cstdint>
#include <string_view>

#include "evenkeel/scheduler/scheduler.h"

namespace evenkeel {

/// The costs of a request, and how its placing is recorded.
struct RequestCost {
  /// What the scheduler predicts costs from. The pool fills what depends on its backends: priority,
  /// adapter and all that follow it.
  Arrival arrival{};
  std::uint64_t model = 0;    ///< hash_of the model's name; 0: none
  std::string_view name{};    ///< of the record; clients choose it
  std::uint64_t request = 0;  ///< the same for the attempts of a request, and for no others
  bool wants_record = false;  ///< True if a client asks for a record.
};

}  // namespace evenkeel
