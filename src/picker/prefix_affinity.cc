// prefix-affinity: requests whose prompts begin alike go to the same backend, by what comes behind
// the beginning that all requests share.
//
//   key of a request: its first block of prompt that is not common; else, if the prompt has none,
//                     its conversation, if that is not common
//   common:           in more than c * weight / sum of weights of the recent requests
//   picked:           as by consistent-hash for the key; without a key as by least-connections
//
// weight is that of the backend to which the block belongs, c the load factor: what is common is
// too much for that backend's bound. A block's hash covers all that precedes it, so requests that
// share a system prompt share their first blocks. Keyed by the first one, they would all belong to
// one backend, and overflow to others as chance has it. What is common soon is in every cache.
//
// No replica tells another anything: each one sees a sample of the same traffic, so that they find
// the same blocks common and choose the same keys (common_prefixes.h).
//
// Sources: bounded loads and rendezvous: consistent_hash.cc. KubeAI hashes the first 100 characters
// of a prompt; prequal-rs has a key "past what every replica holds", by an index of all of them.
#include <algorithm>
#include <memory>
#include <utility>

#include "evenkeel/base/rng.h"
#include "picker/common_prefixes.h"
#include "picker/pickers.h"
#include "picker/rendezvous_table.h"

namespace evenkeel {
namespace {

class PrefixAffinity final : public Picker {
 public:
  PrefixAffinity(const PickerOptions& options, std::shared_ptr<const RendezvousTable> table,
                 std::unique_ptr<Picker> by_key, std::unique_ptr<Picker> by_load)
      : backends_(options.backends),
        table_(std::move(table)),
        by_key_(std::move(by_key)),
        by_load_(std::move(by_load)),
        common_(backends_->size()) {
    double weights = 0;
    for (const auto& backend : *backends_) weights += weight(*backend);
    limit_per_weight_ = options.choice.load_factor / weights;
  }

  const BackendPtr* pick(const Hint& hint) override {
    return hint.key ? by_key_->pick(hint) : by_load_->pick(hint);
  }

  std::optional<std::uint64_t> key_of(const PromptBeginning& prompt) override {
    if (backends_->empty()) return std::nullopt;
    common_.begin_request();
    for (const std::uint64_t block : prompt.blocks) {
      if (!is_common(block)) return block;
    }
    if (prompt.conversation == 0 || is_common(prompt.conversation)) return std::nullopt;
    return prompt.conversation;
  }

 private:
  static double weight(const Backend& backend) {
    return std::max(backend.spec().config.weight, 1u);
  }

  bool is_common(std::uint64_t block) {
    const Backend& owner = *(*backends_)[table_->owner(mix(block))];
    return common_.count(block, limit_per_weight_ * weight(owner));
  }

  std::shared_ptr<const Backends> backends_;
  std::shared_ptr<const RendezvousTable> table_;
  std::unique_ptr<Picker> by_key_;
  std::unique_ptr<Picker> by_load_;
  CommonPrefixes common_;
  double limit_per_weight_;
};

}  // namespace

PickerFactory pickers::prefix_affinity(PickerOptions options) {
  auto table = RendezvousTable::of(*options.backends);
  auto by_key = consistent_hash(options);
  auto by_load = least_connections(options);
  return [options = std::move(options), table = std::move(table), by_key = std::move(by_key),
          by_load = std::move(by_load)](std::uint64_t seed) {
    return std::make_unique<PrefixAffinity>(options, table, by_key(seed), by_load(seed));
  };
}

}  // namespace evenkeel
