// What the tokens of models cost.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "evenkeel/config/config.h"
#include "evenkeel/http/inference_info.h"
#include "evenkeel/stats/amount.h"

namespace evenkeel {

/// A price of a million tokens, in millionths of the unit.
struct Price {
  std::uint64_t input = 0;
  std::uint64_t output = 0;
  std::uint64_t cached_input = 0;
};

/// The tokens that a request is billed by.
struct BilledTokens {
  std::uint64_t input = 0;
  std::uint64_t output = 0;
  std::optional<std::uint64_t> cached;  ///< of the input; nothing: the engine did not say
  bool estimated = false;
};

Amount cost_of(const BilledTokens& tokens, const Price& price);

/// The prices of the file (`usage.prices`). Immutable.
class PriceList {
 public:
  PriceList() = default;
  explicit PriceList(const std::vector<ModelPrice>& prices);
  /// Knows besides what the pools of the file call the models that clients name.
  explicit PriceList(const Config& config);

  /// The price of a request: by the name that the backend got, else by the one that the client
  /// gave, which it may choose; null: none.
  const Price* find(const InferenceInfo& inference) const;
  /// The highest price that a request for this model may have in any pool; zero: none has one.
  Price highest(std::string_view model) const;

 private:
  struct Entry {
    std::string model;
    Price price;
  };
  const Price* find(std::string_view name) const;

  std::vector<Entry> entries_;
  std::map<std::string, Price, std::less<>> renamed_;  // by clients' names, in some pool
  Price any_;       // of pools that serve whatever is asked for under a name of their own
  Price unlisted_;  // of those whose `models` lack a name, and which may get it nevertheless
  std::set<std::string, std::less<>> listed_;  // names in the `models` of some pool
};

}  // namespace evenkeel
