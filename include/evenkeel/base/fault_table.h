// The one table of faults: the word of each, the side it counts for, and what to do about it.
#pragma once

#include <array>
#include <string_view>

#include "evenkeel/base/result.h"

namespace evenkeel {

/// A fault as logs, metrics and people know it. Texts are Markdown; their links begin at docs/.
struct FaultEntry {
  Fault fault = Fault::internal;
  const char* word = "";    ///< "queue_full"
  std::string_view side{};  ///< what a failed request counts for: "client", "proxy", "backend"
  std::string_view meaning{};
  std::string_view cause{};  ///< the likely one
  std::string_view cure{};
};

/// Every fault, in the order of the enum.
const std::array<FaultEntry, fault_count>& fault_table();

const FaultEntry& entry_of(Fault fault);

}  // namespace evenkeel
