// Quotas that several processes share.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "evenkeel/base/task.h"
#include "evenkeel/tenancy/quota_table.h"

namespace evenkeel {

/// A store of quotas that several processes use. Thread: one worker's.
class QuotaStore {
 public:
  struct Ask {
    Quota quota;
    std::uint64_t amount = 0;
    bool may_refuse = true;  ///< false: where not so much is left, nothing of it is taken
  };

  virtual ~QuotaStore() = default;
  /// Takes all amounts, or none if one that may refuse does. Returns where each quota stands;
  /// nothing if the store has not answered in time: then it may have taken them.
  virtual Task<std::optional<std::vector<QuotaState>>> take(std::vector<Ask> asked) = 0;

  struct Settlement {
    Quota quota;
    std::uint64_t taken = 0;
    std::uint64_t used = 0;
    QuotaTime taken_at;
  };
  /// Corrects what was taken, as QuotaTable::settle; does not wait for it.
  virtual void settle(std::vector<Settlement> settlements) = 0;
};

}  // namespace evenkeel
