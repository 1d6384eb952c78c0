// The limits of a file, and what each request takes of them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "evenkeel/base/pool_allocator.h"
#include "evenkeel/config/config.h"
#include "evenkeel/http/message.h"
#include "evenkeel/tenancy/output_estimates.h"
#include "evenkeel/tenancy/quota_store.h"
#include "evenkeel/tenancy/quota_table.h"

namespace evenkeel {

/// `cost` is counted in millionths of the currency of `usage.prices`.
enum class LimitUnit : std::uint8_t {
  requests,
  tokens,
  input_tokens,
  output_tokens,
  concurrent,
  cost
};

/// The word of a unit in the file, such as "input_tokens".
std::string_view to_string(LimitUnit unit);
std::string_view to_string(LimitPeriod period);
bool counts_tokens(LimitUnit unit);
/// True if what a request takes of the limit is known when it has ended: tokens, and their cost.
bool is_settled(LimitUnit unit);
/// An amount in words of the file: "5000", of a cost "0.25".
std::string amount_text(LimitUnit unit, std::uint64_t amount);

/// One limit of the file.
struct Limit {
  LimitUnit unit = LimitUnit::requests;
  OverLimit over = OverLimit::refuse;
  Quota quota;          ///< of `concurrent`: the amount alone counts
  Quota local;          ///< this replica's share of it
  std::string subject;  ///< whose it is: "for each address"; empty: one tenant's
};

/// The text of a limit: "600 requests per minute", "a cost of 500 per month".
std::string text_of(const Limit& limit);

/// A limit as it applies to one request: `key` is that of the quota of its subject.
struct AppliedLimit {
  const Limit* limit;
  std::uint64_t key;
};
using AppliedLimits = std::array<AppliedLimit, max_limits_of_request>;

/// What a limit goes by.
struct LimitSubject {
  enum class Kind : std::uint8_t { tenant, key, model, address, header };
  Kind kind = Kind::tenant;
  std::string header;  ///< its name
};

/// The limits that a file names for clients, or the budget of a pool, which is for all requests
/// together. Immutable.
class LimitTable {
 public:
  /// The limits of tenants, and `rate_limits` of all routes.
  explicit LimitTable(const Config& config);
  /// The `rate_limits` of certain routes.
  static LimitTable of_routes(const Config& config);
  /// The budget of a pool of the file.
  LimitTable(const Config& config, const PoolConfig& pool);

  bool is_empty() const { return limits_.empty() && rules_.empty(); }
  bool counts_cost() const;
  /// The limits of all requests together.
  std::span<const Limit> of_all() const { return of_all_; }
  /// The limits of the tenant with this position in the file, from 1; of 0: none.
  std::span<const Limit> of_tenant(std::uint32_t number) const {
    return number < tenants_.size() ? tenants_[number] : std::span<const Limit>();
  }
  /// Writes the limits that apply to a request, and returns how many there are.
  std::size_t find(const Request& request, AppliedLimits& limits) const;

 private:
  /// An entry of `rate_limits`.
  struct Rule {
    std::vector<LimitSubject> by;
    std::vector<std::string> models;
    std::vector<std::string> routes;
    std::vector<Limit> limits;
  };

  LimitTable() = default;
  void add_rules(const Config& config, bool of_routes, std::set<std::uint64_t>& keys);

  std::vector<Limit> limits_;
  std::vector<std::span<const Limit>> tenants_;  // by number
  std::span<const Limit> of_all_;
  std::vector<Rule> rules_;
};

/// True if requests need a LimitUse: the file limits clients, or a pool has a budget.
bool has_limits(const Config& config);

/// What all workers, and all versions of the file, know of the use of limits. The limits of
/// tenants, and the budgets of pools, have a table of their own, which clients cannot fill.
struct LimitUse {
  QuotaTable of_file{64 * 1024};    // 1 MiB
  QuotaTable of_others{64 * 1024};  // 1 MiB
  OutputEstimates outputs;

  /// The table of a limit, by its key.
  QuotaTable& quotas_of(std::uint64_t key);
  const QuotaTable& quotas_of(std::uint64_t key) const;

  /// Where a limit of the file itself stands.
  QuotaState state_of(const Limit& limit, const QuotaTime& time) const;

  std::vector<QuotaTable::Saved> saved(const QuotaTime& time) const;
  void restore(const std::vector<QuotaTable::Saved>& saved, const QuotaTime& time);
};

/// The tokens of a request, and what they cost in millionths.
struct TokenUse {
  std::uint64_t input = 0;
  std::uint64_t output = 0;
  std::uint64_t cost = 0;
  std::uint64_t input_cost = 0;  ///< of `cost`, that of the input
  bool guesses_output = false;   ///< the client has not said how long it may get
};

/// Why a request is refused.
struct LimitRefusal {
  const Limit* limit = nullptr;  ///< null: the shared state does not answer
  QuotaState state;
  std::uint64_t amount = 0;  ///< what the request asked for
};

/// Where a request stands with that of its limits of one kind of which least is left.
struct LimitStanding {
  std::uint64_t limit = 0;  ///< 0: it has none
  std::uint64_t remaining = 0;
  Duration reset{};
};

/// What one request has taken of its limits. Its destructor settles them with what it has used.
///
/// Thread: one worker's. REQUIRES: table and use outlive it.
class Reservation : public Pooled {
 public:
  /// Finds the limits of the request.
  Reservation(LimitUse& use, const LimitTable& table, const Request& request)
      : use_(use), count_(table.find(request, limits_)) {}
  Reservation(const Reservation&) = delete;
  Reservation& operator=(const Reservation&) = delete;
  ~Reservation();

  /// True if the request has no limits.
  bool is_empty() const { return count_ == 0; }
  /// Takes what the request is likely to use. If one limit refuses it, nothing is taken of the
  /// others. Once, and before anything else.
  std::optional<LimitRefusal> take(const TokenUse& estimate, const QuotaTime& time);
  /// Does what `take` does with the quotas of all replicas.
  Task<std::optional<LimitRefusal>> take_shared(QuotaStore& store, StoreFailure on_failure,
                                                TokenUse estimate, QuotaTime time);
  /// The request has used so much. Without it, it has used no tokens.
  void set_used(const TokenUse& used) { used_ = used; }

  /// True if the request is beyond a limit that lowers its priority.
  bool is_over() const { return is_over_; }
  const LimitStanding& requests() const { return requests_; }
  const LimitStanding& tokens() const { return tokens_; }
  const LimitStanding& cost() const { return cost_; }

 private:
  enum class Part : std::uint8_t { concurrency, rates };
  std::optional<LimitRefusal> take_part(Part part, const QuotaTime& time);
  std::optional<LimitRefusal> take_one(std::size_t number, const QuotaTime& time);
  std::optional<LimitRefusal> accept(const std::vector<std::size_t>& numbers,
                                     const std::vector<QuotaState>& states, const QuotaTime& time);
  std::optional<LimitRefusal> judge(std::size_t number, const QuotaState& state);
  LimitStanding& standing_of(LimitUnit unit);
  std::uint64_t asked_of(const Limit& limit) const;
  bool is_free(const Limit& limit) const;
  void release(const TokenUse& used, std::uint64_t requests, const QuotaTime& time);

  LimitUse& use_;
  AppliedLimits limits_;  // NOLINT(*-member-init): `count_` of them are
  const std::size_t count_;
  std::uint32_t held_ = 0;  // a bit for each limit of which something is taken
  bool is_over_ = false;
  QuotaStore* store_ = nullptr;   // with which the rates are settled; null: none
  bool store_has_taken_ = false;  // false: they were granted here, since it did not answer
  TokenUse estimate_;
  TokenUse used_;
  QuotaTime taken_at_{};
  LimitStanding requests_;
  LimitStanding tokens_;
  LimitStanding cost_;
};

}  // namespace evenkeel
