// consistent-hash: requests with the same key go to the same backend while its load is within its
// bound.
//
//   candidates of a key: owner(mix(key)), owner(mix(key + g)), owner(mix(key + 2 g)), ...
//   picked: the first that is eligible and has in_flight < ceil(c * (m + 1) * weight / sum of
//   weights)
//
// g is 2^64 divided by the golden ratio, m the requests in flight on the pool, c the load factor
// (1.25). Owners come from weighted rendezvous hashing (rendezvous_table.h): when a backend leaves,
// only its keys move. A backend that is full, deprioritized or above its bound passes each key on
// to the key's next candidate, and gets it back afterwards.
//
// Sources: Thaler, Ravishankar, Using name-based mappings to increase hit rates, 1998 (rendezvous);
// Mirrokni, Thorup, Zadimoghaddam, Consistent hashing with bounded loads, 2018 (the bound; c = 1.25
// is KubeAI's default).
//
// A request without a key gets a random one. m and the sum of weights are refreshed from a few
// backends with each pick, in turn (in small pools from all of them), so workers share no counter.
#include <cmath>
#include <memory>
#include <vector>

#include "picker/candidates.h"
#include "picker/pickers.h"
#include "picker/rendezvous_table.h"

namespace evenkeel {
namespace {

constexpr std::uint64_t golden = 0x9e3779b97f4a7c15u;
constexpr int max_candidates = 32;  // tried for a key; then the least loaded backend is picked
// A pick refreshes the snapshots of all backends in pools up to full_scan_limit, else of four.
constexpr std::uint32_t full_scan_limit = 16;
constexpr std::uint32_t refreshes_per_pick = 4;

class ConsistentHash final : public CandidatePicker {
 public:
  ConsistentHash(const PickerOptions& options, std::shared_ptr<const RendezvousTable> table,
                 std::uint64_t seed)
      : CandidatePicker(options, seed),
        table_(std::move(table)),
        load_factor_(options.choice.load_factor),
        snapshots_(candidates_.size()) {
    for (std::uint32_t index = 0; index < candidates_.size(); ++index)
      refresh_one(index, Instant{});
  }

 private:
  struct Snapshot {
    std::uint32_t in_flight = 0;
    std::uint32_t weight = 0;  // 0 if deprioritized: the others take over its share
  };

  std::uint32_t choose(const Eligible& eligible) override {
    if (snapshots_.empty()) return none;
    refresh(eligible.hint().now);

    std::uint64_t key = eligible.hint().key ? *eligible.hint().key : rng_();
    for (int tries = 0; tries < max_candidates; ++tries, key += golden) {
      const std::uint32_t owner = table_->owner(mix(key));
      if (eligible(owner) && within_bound(owner)) return owner;
    }
    return least_loaded(eligible);
  }

  bool within_bound(std::uint32_t index) const {
    if (weights_ == 0) return true;
    const double fair = static_cast<double>(in_flight_ + 1) * candidates_.weight(index) /
                        static_cast<double>(weights_);
    return candidates_.in_flight(index) < std::ceil(load_factor_ * fair);
  }

  void refresh(Instant now) {
    const std::uint32_t size = candidates_.size();
    for (std::uint32_t refreshes = size <= full_scan_limit ? size : refreshes_per_pick;
         refreshes > 0; --refreshes) {
      refresh_one(cursor_, now);
      cursor_ = cursor_ + 1 < size ? cursor_ + 1 : 0;
    }
  }

  void refresh_one(std::uint32_t index, Instant now) {
    const Snapshot fresh{
        .in_flight = candidates_.in_flight(index),
        .weight = candidates_.deprioritized(index, now) ? 0 : candidates_.weight(index),
    };
    Snapshot& snapshot = snapshots_[index];
    in_flight_ += fresh.in_flight - std::uint64_t{snapshot.in_flight};
    weights_ += fresh.weight - std::uint64_t{snapshot.weight};
    snapshot = fresh;
  }

  std::shared_ptr<const RendezvousTable> table_;
  double load_factor_;
  std::vector<Snapshot> snapshots_;
  std::uint64_t in_flight_ = 0;  // sums over snapshots_
  std::uint64_t weights_ = 0;
  std::uint32_t cursor_ = 0;
};

}  // namespace

PickerFactory pickers::consistent_hash(PickerOptions options) {
  auto table = RendezvousTable::of(*options.backends);
  return [options = std::move(options), table](std::uint64_t seed) {
    return std::make_unique<ConsistentHash>(options, table, seed);
  };
}

}  // namespace evenkeel
