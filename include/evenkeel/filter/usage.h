// Writes a usage record for every request that a backend got for a model.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "evenkeel/base/rng.h"
#include "evenkeel/config/config.h"
#include "evenkeel/http/message.h"
#include "evenkeel/stats/access_log.h"
#include "evenkeel/stats/amount.h"

namespace evenkeel {

/// The tokens that a request is billed by.
struct BilledTokens {
  std::uint64_t input = 0;
  std::uint64_t output = 0;
  std::optional<std::uint64_t> cached;  ///< of the input; nothing: the engine did not say
  bool estimated = false;
};

/// The tokens of what the client got, over all attempts: as the engine has counted, else estimated.
/// None of a response that was an error, unless the engine has counted.
/// REQUIRES: `info.inference`.
BilledTokens billed_tokens(const RequestInfo& info, bool aborted);

/// Writes the records of one worker. Thread: the worker's.
class UsageRecorder {
 public:
  struct End {
    std::chrono::system_clock::time_point time;
    Duration duration{};
    int status = 0;
    bool aborted = false;
  };

  UsageRecorder(AccessLogRing& ring, std::uint64_t seed) : ring_(ring), rng_(seed) {}

  /// What records have from now on.
  void configure(const UsageConfig& config);
  /// Records a request that has ended, if it was for a model and a backend got it, or its answer
  /// was used again, which is billed no tokens. REQUIRES: `info.inference`.
  void record(const RequestInfo& info, const End& end);

 private:
  /// A price of a model, in millionths of the unit, for a million tokens.
  struct Price {
    std::string model;
    std::uint64_t input = 0;
    std::uint64_t output = 0;
    std::uint64_t cached_input = 0;
  };
  const Price* price_of(const InferenceInfo& inference) const;
  static Amount cost_of(const BilledTokens& tokens, const Price& price);

  AccessLogRing& ring_;
  Rng rng_;
  std::string source_;
  std::vector<Price> prices_;
};

}  // namespace evenkeel
