// Refuses what is beyond a tenant's limits, or a pool's budget, before it reaches a backend.
#pragma once

#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "evenkeel/filter/price_list.h"
#include "evenkeel/http/message.h"
#include "evenkeel/tenancy/limits.h"

namespace evenkeel {

/// The filter `limits`: reserves what a request is likely to use of its tenant's limits, and
/// settles it with what it has used once its response has ended, however it ended. What an engine
/// does not count is estimated. A request beyond a limit gets 429, or a lower priority; answers to
/// clients of OpenAI's and Anthropic's libraries say what is left.
///
/// In front of a pool with a `budget` it does the same with that of all requests of the pool, whose
/// refusal is an error: another pool may take the request.
///
/// The use of a limit exceeds it by what requests in flight generate beyond their estimates, and by
/// nothing else.
///
/// Thread: one worker's. REQUIRES: what is passed outlives the filter and the responses.
class LimitsFilter final : public Filter {
 public:
  /// What counts the use of limits.
  struct Counting {
    const PriceList& prices;
    LimitUse& use;
    QuotaStore* store;  ///< the quotas of all replicas; null: this one's alone count
  };

  /// The limits of clients.
  LimitsFilter(const Config& config, const Counting& counting)
      : LimitsFilter(config, LimitTable(config), {}, counting) {}
  /// The limits of a table.
  LimitsFilter(const Config& config, LimitTable table, const Counting& counting)
      : LimitsFilter(config, std::move(table), {}, counting) {}
  /// The budget of a pool of the file.
  LimitsFilter(const Config& config, const PoolConfig& pool, const Counting& counting)
      : LimitsFilter(config, LimitTable(config, pool), pool.name, counting) {}

  Task<Result<Response>> handle(Request& request, Handler& next) override;

 private:
  LimitsFilter(const Config& config, LimitTable table, std::string_view pool,
               const Counting& counting)
      : table_(std::move(table)),
        pool_(pool),
        prices_(table_.counts_cost() ? &counting.prices : nullptr),
        use_(counting.use),
        store_(counting.store),
        on_failure_(config.shared_state ? config.shared_state->on_failure : StoreFailure::local) {}

  bool is_budget() const { return !pool_.empty(); }
  TokenUse estimate_of(const Request& request) const;
  Task<Result<Response>> ask_store(Request& request, std::unique_ptr<Reservation> reservation,
                                   TokenUse estimate, Handler& next);
  Task<Result<Response>> decide(Request& request, const std::optional<LimitRefusal>& refusal,
                                std::unique_ptr<Reservation> reservation, Handler& next);
  Result<Response> refuse(Request& request, const LimitRefusal& refusal,
                          const Reservation& reservation) const;
  Task<Result<Response>> serve(Request& request, std::unique_ptr<Reservation> reservation,
                               Handler& next);

  const LimitTable table_;
  const std::string_view pool_;    // whose budget it is; empty: limits of clients
  const PriceList* const prices_;  // null: no limit is one of cost
  LimitUse& use_;
  QuotaStore* const store_;
  const StoreFailure on_failure_;
};

}  // namespace evenkeel
