// The last decisions of a scheduler: some of all requests, and those that a client asked for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "evenkeel/base/hash.h"
#include "evenkeel/scheduler/decision.h"

namespace evenkeel {

/// A fixed number of decisions. The one that ended first makes room for a new one. Those of
/// requests in flight stay.
///
/// Thread: one at a time. Allocates nothing after its construction.
class DecisionLog {
 public:
  explicit DecisionLog(std::size_t capacity);

  /// An empty one of this name; the caller fills it until `end`. Null: all are in use.
  Decision* begin(std::string_view name);
  /// REQUIRES: `begin` gave it, and it has not ended. It may make room from now on.
  void end(const Decision& decision);
  /// Calls `visit` with those of this name.
  template <class Visit>
  void each(std::string_view name, Visit visit) const {
    name = name.substr(0, Decision::max_name);
    const std::uint64_t hash = hash_of(name);
    for (std::size_t i = 0; i < names_.size(); ++i) {
      if (names_[i] == hash && decisions_[i].name() == name) visit(decisions_[i]);
    }
  }

 private:
  std::vector<Decision> decisions_;
  std::vector<std::uint64_t> names_;  // hashes; by index
  std::vector<std::uint32_t> ended_;  // indices, a ring: the first to end is at `first_`
  std::size_t first_ = 0;
  std::size_t count_ = 0;  // of those that have ended
};

}  // namespace evenkeel
