// Weighted rendezvous hashing with a precomputed table: a lookup is one memory access.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "evenkeel/backend/backend.h"

namespace evenkeel {

/// Every slot of the table belongs to one backend; a key's backend is the owner of its slot.
///
/// Source: rendezvous hashing (Thaler, Ravishankar 1998) with weights: a slot belongs to the
/// backend whose exponential clock of rate `weight`, seeded by slot and backend, rings first.
/// Evaluating n backends for each of m slots takes m * n steps (10^10 for 10 000 backends), so the
/// table is filled from the other side: each backend has a stream of arrivals, `weight` per unit of
/// time, at slots that its id alone determines, and a slot belongs to the backend that arrives
/// first. About m ln m arrivals fill the table.
///
/// Consequences: removing a backend moves only its own slots, adding one moves slots only to it, a
/// changed weight moves slots only to or from that backend, and the order of the list does not
/// matter. Shares are weight / (sum of weights) to within 1 / sqrt(slots of the backend).
class RendezvousTable {
 public:
  explicit RendezvousTable(const Backends& backends);
  /// A table for these backends, shared with every holder of one for the same ids and weights in
  /// the same order: a large table takes 0.1 s to make, and most reloads change neither. Thread:
  /// any.
  static std::shared_ptr<const RendezvousTable> of(const Backends& backends);

  /// The index of the owner. REQUIRES: there are backends.
  std::uint32_t owner(std::uint64_t hash) const { return owners_[hash >> shift_]; }
  std::size_t slots() const { return owners_.size(); }

 private:
  unsigned shift_;
  std::vector<std::uint32_t> owners_;
};

}  // namespace evenkeel
