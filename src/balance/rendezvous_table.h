// Weighted rendezvous hashing with the answers written down: a look-up is one memory access.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "evenkeel/balance/backend.h"

namespace evenkeel {

/// Every slot of the table belongs to one backend; a key's backend is the owner of its slot.
///
/// Rendezvous hashing (Thaler, Ravishankar 1998), weighted: of all backends, the one whose
/// exponential clock of rate `weight`, seeded by slot and backend, rings first. To ask n backends
/// for each of m slots is m * n steps (10^10 for 10 000 backends), so the race is run from the
/// other side: each backend has a stream of arrivals, `weight` per unit of time, at slots that its
/// id alone determines, and a slot belongs to whoever arrives first. About m ln m arrivals fill the
/// table.
///
/// Hence, exactly: a backend that leaves moves only its own slots, one that comes takes slots only
/// for itself, a changed weight moves slots only to or from that backend, and the order of the list
/// does not matter. Shares are weight / (sum of weights) to within 1 / sqrt(slots of the backend).
class RendezvousTable {
 public:
  explicit RendezvousTable(const Backends& backends);
  /// The same, or one that stands already for the same ids and weights in the same order: a large
  /// one takes a tenth of a second to make, and most reloads change neither. Thread: any.
  static std::shared_ptr<const RendezvousTable> of(const Backends& backends);

  /// The index of the owner. REQUIRES: there are backends.
  std::uint32_t owner(std::uint64_t hash) const { return owners_[hash >> shift_]; }
  std::size_t slots() const { return owners_.size(); }

 private:
  unsigned shift_;
  std::vector<std::uint32_t> owners_;
};

}  // namespace evenkeel
