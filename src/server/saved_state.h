// What a process leaves to the one that replaces it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "evenkeel/base/result.h"
#include "server/operator_overrides.h"

namespace evenkeel {

/// What operators have set. Backends are named by pool and id.
struct SavedState {
  struct Weight {
    std::uint32_t weight = 0;
    std::uint32_t configured = 0;  ///< in the file; an override holds only while that stays
    bool operator==(const Weight&) const = default;
  };

  OperatorOverrides::Drained drained;
  std::map<std::pair<std::string, std::string>, Weight> weights;

  bool operator==(const SavedState&) const = default;
};

/// As text, with a version and a checksum.
std::string to_text(const SavedState& state);

/// Errors: the text was written by a version with another format, or is damaged.
Result<SavedState> parse_state(std::string_view text);

}  // namespace evenkeel
