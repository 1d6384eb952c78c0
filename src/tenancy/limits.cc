#include "evenkeel/tenancy/limits.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <iterator>
#include <set>

#include "evenkeel/base/client_key.h"
#include "evenkeel/base/glob.h"
#include "evenkeel/base/hash.h"
#include "evenkeel/stats/amount.h"

namespace evenkeel {
namespace {

constexpr std::array<std::string_view, 6> units = {"requests",      "tokens",     "input_tokens",
                                                   "output_tokens", "concurrent", "cost"};
constexpr std::array<std::string_view, 5> unit_texts = {"requests", "tokens", "tokens of prompts",
                                                        "tokens of outputs", "requests at a time"};
constexpr std::array<std::string_view, 5> one_unit = {"request", "token", "token of prompts",
                                                      "token of outputs", "request at a time"};
constexpr std::array<std::string_view, 5> periods = {"second", "minute", "hour", "day", "month"};

/// Keys of limits of the file itself have the highest bit, which tells the table that they are in.
constexpr std::uint64_t file_bit = std::uint64_t{1} << 63;

/// What a request with this use takes of a limit.
std::uint64_t amount_of(LimitUnit unit, const TokenUse& use) {
  switch (unit) {
    case LimitUnit::tokens: return use.input + use.output;
    case LimitUnit::input_tokens: return use.input;
    case LimitUnit::output_tokens: return use.output;
    case LimitUnit::cost: return use.cost;
    case LimitUnit::requests:
    case LimitUnit::concurrent: return 1;
  }
  return 1;
}

/// The same limit of the same owner has the same key in all versions of the file.
std::uint64_t key_of(std::string_view owner, LimitUnit unit, LimitPeriod period) {
  const auto number =
      static_cast<std::uint64_t>(unit) * periods.size() + static_cast<std::uint64_t>(period);
  return hash_of(hash_of(owner), number + 1);
}

/// `owner` tells the limits of different tenants, pools and rules apart.
void add(std::vector<Limit>& limits, std::set<std::uint64_t>& keys, std::string_view owner,
         const std::string& subject, const LimitsConfig& config, std::uint32_t replicas) {
  const bool is_of_file = subject.empty();
  const std::size_t first = limits.size();
  const auto add_rates = [&](LimitUnit unit, const std::vector<LimitRate>& rates) {
    for (const LimitRate& rate : rates) {
      limits.push_back(
          {.unit = unit,
           .over = config.over,
           .quota = {.key = key_of(owner, unit, rate.period), .rate = rate, .burst = config.burst},
           .subject = subject});
    }
  };
  if (config.concurrent > 0) {
    limits.push_back({.unit = LimitUnit::concurrent,
                      .over = config.over,
                      .quota = {.key = key_of(owner, LimitUnit::concurrent, LimitPeriod::second),
                                .rate = {.amount = config.concurrent}},
                      .subject = subject});
  }
  add_rates(LimitUnit::requests, config.requests);
  add_rates(LimitUnit::tokens, config.tokens);
  add_rates(LimitUnit::input_tokens, config.input_tokens);
  add_rates(LimitUnit::output_tokens, config.output_tokens);
  add_rates(LimitUnit::cost, config.cost);
  for (std::size_t i = first; i < limits.size(); ++i) {
    // Several limits of one owner that count the same have quotas of their own.
    std::uint64_t& key = limits[i].quota.key;
    while (!keys.insert(key).second) key = hash_of(key, 1);
    key = is_of_file ? key | file_bit : key & ~file_bit;
    limits[i].local = limits[i].quota;
    limits[i].local.rate.amount =
        std::max<std::uint64_t>(limits[i].quota.rate.amount / replicas, 1);
  }
}

std::string_view model_of(const Request& request) {
  const InferenceInfo* const inference = request.info.inference.get();
  return inference == nullptr ? std::string_view() : std::string_view(inference->request.model);
}

std::uint32_t replicas_of(const Config& config) {
  return config.shared_state ? config.shared_state->replicas : 1;
}

Quota with_key(Quota quota, std::uint64_t key) {
  quota.key = key;
  return quota;
}

LimitSubject subject_named(const std::string& name) {
  constexpr std::string_view header = "header:";
  using Kind = LimitSubject::Kind;
  if (name == "address") return {.kind = Kind::address, .header = {}};
  if (name == "tenant") return {.kind = Kind::tenant, .header = {}};
  if (name == "key") return {.kind = Kind::key, .header = {}};
  if (name == "model") return {.kind = Kind::model, .header = {}};
  return {.kind = Kind::header, .header = name.substr(header.size())};
}

/// A hash of what the request has of the subject; nothing: it lacks it.
std::optional<std::uint64_t> subject_hash(const LimitSubject& subject, const Request& request) {
  const RequestIdentity& identity = request.info.identity;
  std::string_view value;
  switch (subject.kind) {
    case LimitSubject::Kind::address: return client_key(identity.client);
    case LimitSubject::Kind::tenant: value = identity.tenant.name; break;
    case LimitSubject::Kind::key:
      if (identity.tenant.key != nullptr) value = identity.tenant.key->id;
      break;
    case LimitSubject::Kind::model: value = model_of(request); break;
    case LimitSubject::Kind::header:
      value = request.fields.value(subject.header).value_or("");
      break;
  }
  return value.empty() ? std::nullopt : std::optional(hash_of(value));
}

}  // namespace

QuotaTable& LimitUse::quotas_of(std::uint64_t key) {
  return (key & file_bit) != 0 ? of_file : of_others;
}
const QuotaTable& LimitUse::quotas_of(std::uint64_t key) const {
  return (key & file_bit) != 0 ? of_file : of_others;
}

QuotaState LimitUse::state_of(const Limit& limit, const QuotaTime& time) const {
  const std::uint64_t key = limit.quota.key;
  if (limit.unit == LimitUnit::concurrent) return {.used = quotas_of(key).inside(key)};
  return quotas_of(key).look(with_key(limit.local, key), 0, time);
}

std::vector<QuotaTable::Saved> LimitUse::saved(const QuotaTime& time) const {
  std::vector<QuotaTable::Saved> all = of_file.saved(time);
  const auto others = of_others.saved(time);
  all.insert(all.end(), others.begin(), others.end());
  return all;
}

void LimitUse::restore(const std::vector<QuotaTable::Saved>& saved, const QuotaTime& time) {
  for (const QuotaTable::Saved& each : saved) quotas_of(each.key).restore(each, time);
}

std::string_view to_string(LimitUnit unit) { return units[static_cast<std::size_t>(unit)]; }

std::string_view to_string(LimitPeriod period) { return periods[static_cast<std::size_t>(period)]; }

bool counts_tokens(LimitUnit unit) { return is_settled(unit) && unit != LimitUnit::cost; }

bool is_settled(LimitUnit unit) {
  return unit != LimitUnit::requests && unit != LimitUnit::concurrent;
}

std::string amount_text(LimitUnit unit, std::uint64_t amount) {
  return unit == LimitUnit::cost ? Amount::of_millionths(amount).text() : std::to_string(amount);
}

std::string text_of(const Limit& limit) {
  const std::uint64_t amount = limit.quota.rate.amount;
  std::string text = amount_text(limit.unit, amount);
  if (limit.unit == LimitUnit::cost) {
    text.insert(0, "a cost of ");
  } else {
    const auto& names = amount == 1 ? one_unit : unit_texts;
    text.append(" ").append(names[static_cast<std::size_t>(limit.unit)]);
  }
  if (limit.unit != LimitUnit::concurrent)
    text.append(" per ").append(to_string(limit.quota.rate.period));
  return limit.subject.empty() ? text : text + " " + limit.subject;
}

LimitTable::LimitTable(const Config& config) {
  const std::uint32_t replicas = replicas_of(config);
  std::set<std::uint64_t> keys;
  std::vector<std::size_t> ends = {0};
  for (const TenantConfig& tenant : config.tenants) {
    add(limits_, keys, "tenant " + tenant.name, {}, tenant.limits, replicas);
    ends.push_back(limits_.size());
  }
  tenants_.emplace_back();
  for (std::size_t i = 1; i < ends.size(); ++i)
    tenants_.emplace_back(limits_.data() + ends[i - 1], ends[i] - ends[i - 1]);
  add_rules(config, false, keys);
}

LimitTable LimitTable::of_routes(const Config& config) {
  LimitTable table;
  std::set<std::uint64_t> keys;
  table.add_rules(config, true, keys);
  return table;
}

/// Adds the `rate_limits` that name routes, or those that do not.
void LimitTable::add_rules(const Config& config, bool of_routes, std::set<std::uint64_t>& keys) {
  for (const RateLimitConfig& each : config.rate_limits) {
    if (each.routes.empty() == of_routes) continue;
    std::string subject;
    for (const std::string& kind : each.by)
      subject.append(subject.empty() ? "for each " : " and ").append(kind);
    std::string owner = subject;
    for (const std::string& model : each.models) owner.append(" ").append(model);
    for (const std::string& route : each.routes) owner.append("\n").append(route);
    Rule& rule = rules_.emplace_back(
        Rule{.by = {}, .models = each.models, .routes = each.routes, .limits = {}});
    std::ranges::transform(each.by, std::back_inserter(rule.by), subject_named);
    add(rule.limits, keys, owner, subject, each, replicas_of(config));
  }
}

LimitTable::LimitTable(const Config& config, const PoolConfig& pool) {
  std::set<std::uint64_t> keys;
  const LimitsConfig budget{.tokens = pool.budget.tokens, .cost = pool.budget.cost};
  add(limits_, keys, "pool " + pool.name, {}, budget, replicas_of(config));
  of_all_ = limits_;
}

bool LimitTable::counts_cost() const {
  const auto is_of_cost = [](const Limit& limit) { return limit.unit == LimitUnit::cost; };
  return std::ranges::any_of(limits_, is_of_cost) ||
         std::ranges::any_of(rules_, [&](const Rule& rule) {
           return std::ranges::any_of(rule.limits, is_of_cost);
         });
}

std::size_t LimitTable::find(const Request& request, AppliedLimits& limits) const {
  std::size_t count = 0;
  for (const auto of_file : {of_all_, of_tenant(request.info.identity.tenant.number)}) {
    for (const Limit& limit : of_file) limits[count++] = {.limit = &limit, .key = limit.quota.key};
  }
  for (const Rule& rule : rules_) {
    const std::string_view model = model_of(request);
    const bool is_for_model = std::ranges::any_of(
        rule.models, [&](const std::string& glob) { return matches_glob(glob, model); });
    if (!rule.models.empty() && !is_for_model) continue;
    const bool is_of_route =
        rule.routes.empty() ||
        std::ranges::find(rule.routes, request.info.identity.route) != rule.routes.end();
    if (!is_of_route) continue;
    std::uint64_t subjects = 0;
    const bool has_all = std::ranges::all_of(rule.by, [&](const LimitSubject& subject) {
      const auto hash = subject_hash(subject, request);
      subjects = hash_of(subjects, hash.value_or(0));
      return hash.has_value();
    });
    if (!has_all) continue;
    for (const Limit& limit : rule.limits)
      limits[count++] = {.limit = &limit, .key = hash_of(limit.quota.key, subjects) & ~file_bit};
  }
  return count;
}

bool has_limits(const Config& config) {
  const auto has_budget = [](const PoolConfig& pool) { return !pool.budget.empty(); };
  return !LimitTable(config).is_empty() || !LimitTable::of_routes(config).is_empty() ||
         std::ranges::any_of(config.pools, has_budget);
}

std::optional<LimitRefusal> Reservation::take(const TokenUse& estimate, const QuotaTime& time) {
  estimate_ = estimate;
  taken_at_ = time;
  auto refusal = take_part(Part::concurrency, time);
  if (!refusal) refusal = take_part(Part::rates, time);
  if (refusal) release({}, 0, time);
  return refusal;
}

Task<std::optional<LimitRefusal>> Reservation::take_shared(QuotaStore& store,
                                                           StoreFailure on_failure,
                                                           TokenUse estimate, QuotaTime time) {
  estimate_ = estimate;
  taken_at_ = time;
  if (auto refusal = take_part(Part::concurrency, time)) {
    release({}, 0, time);
    co_return refusal;
  }
  std::vector<QuotaStore::Ask> asked;
  std::vector<std::size_t> numbers;
  for (std::size_t i = 0; i < count_; ++i) {
    const Limit& limit = *limits_[i].limit;
    if (limit.unit == LimitUnit::concurrent) continue;
    numbers.push_back(i);
    asked.push_back({.quota = with_key(limit.quota, limits_[i].key),
                     .amount = asked_of(limit),
                     .may_refuse = limit.over == OverLimit::refuse && !is_free(limit)});
  }
  if (asked.empty()) co_return std::nullopt;
  auto states = co_await store.take(std::move(asked));
  std::optional<LimitRefusal> refusal;
  store_ = &store;
  store_has_taken_ = states.has_value();
  if (states) {
    refusal = accept(numbers, *states, time);
  } else if (on_failure == StoreFailure::local) {
    refusal = take_part(Part::rates, time);
  } else if (on_failure == StoreFailure::closed) {
    refusal = LimitRefusal{.state = {.retry_after = std::chrono::seconds(1)}};
  }
  if (refusal) release({}, 0, time);
  co_return refusal;
}

/// What is taken of a limit. An output whose length is a guess does not make the request one that
/// is never granted.
std::uint64_t Reservation::asked_of(const Limit& limit) const {
  const std::uint64_t amount = amount_of(limit.unit, estimate_);
  if (!is_settled(limit.unit) || !estimate_.guesses_output) return amount;
  const double share = limit.quota.rate.period < LimitPeriod::day ? limit.quota.burst : 1;
  const auto grantable =
      static_cast<std::uint64_t>(static_cast<double>(limit.local.rate.amount) * share);
  const std::uint64_t least = limit.unit == LimitUnit::output_tokens ? 1
                              : limit.unit == LimitUnit::cost        ? estimate_.input_cost
                                                                     : estimate_.input;
  return std::max(std::min(amount, grantable), std::min(amount, least));
}

/// True if the request costs nothing, which a cost that is reached does not refuse.
bool Reservation::is_free(const Limit& limit) const {
  return limit.unit == LimitUnit::cost && asked_of(limit) == 0;
}

/// Takes what is asked of the limits of one part.
std::optional<LimitRefusal> Reservation::take_part(Part part, const QuotaTime& time) {
  for (std::size_t i = 0; i < count_; ++i) {
    const bool is_rate = limits_[i].limit->unit != LimitUnit::concurrent;
    if (is_rate != (part == Part::rates)) continue;
    if (auto refusal = take_one(i, time)) return refusal;
  }
  return std::nullopt;
}

std::optional<LimitRefusal> Reservation::take_one(std::size_t number, const QuotaTime& time) {
  const auto [limit, key] = limits_[number];
  if (limit->unit == LimitUnit::concurrent) {
    const auto most = static_cast<std::uint32_t>(limit->local.rate.amount);
    return judge(number, {.granted = use_.quotas_of(key).enter(key, most, time).has_value(),
                          .retry_after = std::chrono::seconds(1)});
  }
  return judge(number,
               use_.quotas_of(key).take(with_key(limit->local, key), asked_of(*limit), time));
}

/// The store has answered. What it has granted counts here too, so that this replica knows what it
/// has used should the store fail.
std::optional<LimitRefusal> Reservation::accept(const std::vector<std::size_t>& numbers,
                                                const std::vector<QuotaState>& states,
                                                const QuotaTime& time) {
  const std::uint32_t before = held_;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    if (auto refusal = judge(numbers[i], states[i])) {
      held_ = before;  // then the store has taken none
      return refusal;
    }
  }
  for (const std::size_t number : numbers) {
    const auto [limit, key] = limits_[number];
    if ((held_ >> number & 1) == 0) continue;
    use_.quotas_of(key).settle(with_key(limit->local, key), 0, asked_of(*limit), time, time);
  }
  return std::nullopt;
}

/// Keeps the limit of each kind of which least is left. Nothing: the request is served.
std::optional<LimitRefusal> Reservation::judge(std::size_t number, const QuotaState& state) {
  const Limit& limit = *limits_[number].limit;
  if (limit.unit != LimitUnit::concurrent) {
    LimitStanding& standing = standing_of(limit.unit);
    if (standing.limit == 0 || standing.remaining > state.remaining) {
      standing = {
          .limit = limit.quota.rate.amount, .remaining = state.remaining, .reset = state.reset};
    }
  }
  if (state.granted || is_free(limit)) {
    held_ |= std::uint32_t{1} << number;
    return std::nullopt;
  }
  if (limit.over == OverLimit::refuse)
    return LimitRefusal{.limit = &limit, .state = state, .amount = asked_of(limit)};
  is_over_ = true;
  return std::nullopt;
}

LimitStanding& Reservation::standing_of(LimitUnit unit) {
  if (unit == LimitUnit::cost) return cost_;
  return counts_tokens(unit) ? tokens_ : requests_;
}

void Reservation::release(const TokenUse& used, std::uint64_t requests, const QuotaTime& time) {
  std::vector<QuotaStore::Settlement> settlements;
  for (std::size_t i = 0; i < count_; ++i) {
    if ((held_ >> i & 1) == 0) continue;
    const auto [limit, key] = limits_[i];
    if (limit->unit == LimitUnit::concurrent) {
      use_.quotas_of(key).leave(key);
      continue;
    }
    const std::uint64_t taken = asked_of(*limit);
    const std::uint64_t spent =
        limit->unit == LimitUnit::requests ? requests : amount_of(limit->unit, used);
    use_.quotas_of(key).settle(with_key(limit->local, key), taken, spent, taken_at_, time);
    // Of a limit that refuses nothing, a store that was too late has kept what was asked of it.
    const bool is_told = store_has_taken_ || limit->over == OverLimit::refuse;
    if (store_ != nullptr && is_told) {
      settlements.push_back({.quota = with_key(limit->quota, key),
                             .taken = store_has_taken_ ? taken : 0,
                             .used = spent,
                             .taken_at = taken_at_});
    }
  }
  held_ = 0;
  if (!settlements.empty()) store_->settle(std::move(settlements));
}

/// The request itself stays counted, whatever came of it.
Reservation::~Reservation() {
  if (held_ != 0) release(used_, 1, QuotaTime::current());
}

}  // namespace evenkeel
