// Writes a usage record for every request that a backend got for a model.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "evenkeel/base/rng.h"
#include "evenkeel/config/config.h"
#include "evenkeel/filter/price_list.h"
#include "evenkeel/http/message.h"
#include "evenkeel/stats/access_log.h"

namespace evenkeel {

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
  AccessLogRing& ring_;
  Rng rng_;
  std::string source_;
  PriceList prices_;
};

}  // namespace evenkeel
