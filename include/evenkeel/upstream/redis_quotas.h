// Quotas in Redis, which several replicas of the daemon use.
#pragma once

#include <optional>
#include <vector>

#include "evenkeel/tenancy/quota_store.h"
#include "evenkeel/upstream/redis_client.h"

namespace evenkeel {

/// Keeps quotas as QuotaTable does, one key each, by the clock of the server. All quotas of a
/// request are taken by one script in one round trip, so that all or none are. The keys share a
/// hash tag: a cluster keeps them on one node.
///
/// Thread: the loop's. Outlives its tasks.
class RedisQuotas final : public QuotaStore {
 public:
  /// `logs`: see RedisClient.
  RedisQuotas(Loop& loop, RedisOptions options, bool logs);

  const RedisOptions& options() const { return client_.options(); }

  Task<std::optional<std::vector<QuotaState>>> take(std::vector<Ask> asked) override;
  void settle(std::vector<Settlement> settlements) override;

 private:
  RedisClient client_;
};

}  // namespace evenkeel
