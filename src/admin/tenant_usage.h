// What tenants use, as a document of the admin API.
#pragma once

#include <deque>
#include <map>
#include <string>

#include "admin/documents.h"
#include "evenkeel/base/clock.h"
#include "evenkeel/json/value.h"
#include "evenkeel/stats/worker_metrics.h"

namespace evenkeel {

/// Keeps the totals of the last minute by tenant, for rates. Nothing where the file names none.
/// Thread: the management thread.
class TenantUsage {
 public:
  static constexpr Duration interval = std::chrono::seconds(5);
  static constexpr Duration window = std::chrono::seconds(60);

  /// Takes a sample if the last one is older than `interval`.
  void sample(const RuntimeView& view);
  /// Returns each tenant of the file and `other`, which is of requests of none, with its use beside
  /// its weight and priority. Rates are those since the oldest sample.
  JsonValue::List document(const RuntimeView& view) const;

 private:
  using Totals = std::map<std::string, TenantTotals>;
  struct Sample {
    Instant time{};
    Totals totals;
  };

  static Totals totals_of(const RuntimeView& view);

  std::deque<Sample> samples_;
};

}  // namespace evenkeel
