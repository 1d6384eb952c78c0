// round-robin: each backend in turn, regardless of weight and load.
//
//   next = the first eligible of cursor, cursor + 1, ... (mod n);  cursor = next + 1
//
// Each eligible backend gets the same number of requests per round. A skipped backend costs one
// look per round, so a pick looks at n / (number of eligible backends) on average. Source:
// folklore. The cursor starts at random so that workers do not pick in lockstep.
#include <memory>

#include "picker/candidates.h"
#include "picker/pickers.h"

namespace evenkeel {
namespace {

class RoundRobin final : public CandidatePicker {
 public:
  RoundRobin(const PickerOptions& options, std::uint64_t seed) : CandidatePicker(options, seed) {
    if (candidates_.size() > 0) cursor_ = rng_.below(candidates_.size());
  }

 private:
  std::uint32_t choose(const Eligible& eligible) override {
    for (std::uint32_t looks = candidates_.size(); looks > 0; --looks) {
      const std::uint32_t index = cursor_;
      cursor_ = index + 1 < candidates_.size() ? index + 1 : 0;
      if (eligible(index)) return index;
    }
    return none;
  }

  std::uint32_t cursor_ = 0;
};

}  // namespace

PickerFactory pickers::round_robin(PickerOptions options) {
  return [options = std::move(options)](std::uint64_t seed) {
    return std::make_unique<RoundRobin>(options, seed);
  };
}

}  // namespace evenkeel
