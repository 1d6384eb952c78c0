#include "evenkeel/tenancy/limits.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <iterator>
#include <set>

#include "evenkeel/base/client_key.h"
#include "evenkeel/base/glob.h"
#include "evenkeel/base/hash.h"

namespace evenkeel {
namespace {

constexpr std::array<std::string_view, 5> units = {"requests", "tokens", "input_tokens",
                                                   "output_tokens", "concurrent"};
constexpr std::array<std::string_view, 5> unit_texts = {"requests", "tokens", "tokens of prompts",
                                                        "tokens of outputs", "requests at a time"};
constexpr std::array<std::string_view, 5> one_unit = {"request", "token", "token of prompts",
                                                      "token of outputs", "request at a time"};
constexpr std::array<std::string_view, 5> periods = {"second", "minute", "hour", "day", "month"};

/// Keys of tenants' own limits have the highest bit, which tells the table that they are in.
constexpr std::uint64_t tenant_bit = std::uint64_t{1} << 63;

/// What a request with these tokens takes of a limit.
std::uint64_t amount_of(LimitUnit unit, const TokenUse& tokens) {
  switch (unit) {
    case LimitUnit::tokens: return tokens.input + tokens.output;
    case LimitUnit::input_tokens: return tokens.input;
    case LimitUnit::output_tokens: return tokens.output;
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

/// `owner` tells the limits of different tenants and rules apart.
void add(std::vector<Limit>& limits, std::set<std::uint64_t>& keys, std::string_view owner,
         const std::string& subject, const LimitsConfig& config, std::uint32_t replicas) {
  const bool is_tenants = subject.empty();
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
  for (std::size_t i = first; i < limits.size(); ++i) {
    // Several limits of one owner that count the same have quotas of their own.
    std::uint64_t& key = limits[i].quota.key;
    while (!keys.insert(key).second) key = hash_of(key, 1);
    key = is_tenants ? key | tenant_bit : key & ~tenant_bit;
    limits[i].local = limits[i].quota;
    limits[i].local.rate.amount =
        std::max<std::uint64_t>(limits[i].quota.rate.amount / replicas, 1);
  }
}

std::string_view model_of(const Request& request) {
  const InferenceInfo* const inference = request.info.inference.get();
  return inference == nullptr ? std::string_view() : std::string_view(inference->request.model);
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
  return (key & tenant_bit) != 0 ? of_tenants : of_others;
}
const QuotaTable& LimitUse::quotas_of(std::uint64_t key) const {
  return (key & tenant_bit) != 0 ? of_tenants : of_others;
}

std::vector<QuotaTable::Saved> LimitUse::saved(const QuotaTime& time) const {
  std::vector<QuotaTable::Saved> all = of_tenants.saved(time);
  const auto others = of_others.saved(time);
  all.insert(all.end(), others.begin(), others.end());
  return all;
}

void LimitUse::restore(const std::vector<QuotaTable::Saved>& saved, const QuotaTime& time) {
  for (const QuotaTable::Saved& each : saved) quotas_of(each.key).restore(each, time);
}

std::string_view to_string(LimitUnit unit) { return units[static_cast<std::size_t>(unit)]; }

bool counts_tokens(LimitUnit unit) {
  return unit != LimitUnit::requests && unit != LimitUnit::concurrent;
}

std::string text_of(const Limit& limit) {
  const std::uint64_t amount = limit.quota.rate.amount;
  std::string text = std::to_string(amount);
  text.append(" ").append(
      (amount == 1 ? one_unit : unit_texts)[static_cast<std::size_t>(limit.unit)]);
  if (limit.unit != LimitUnit::concurrent)
    text.append(" per ").append(periods[static_cast<std::size_t>(limit.quota.rate.period)]);
  return limit.subject.empty() ? text : text + " " + limit.subject;
}

LimitTable::LimitTable(const Config& config) {
  const std::uint32_t replicas = config.shared_state ? config.shared_state->replicas : 1;
  std::set<std::uint64_t> keys;
  std::vector<std::size_t> ends = {0};
  for (const TenantConfig& tenant : config.tenants) {
    add(limits_, keys, "tenant " + tenant.name, {}, tenant.limits, replicas);
    ends.push_back(limits_.size());
  }
  tenants_.emplace_back();
  for (std::size_t i = 1; i < ends.size(); ++i)
    tenants_.emplace_back(limits_.data() + ends[i - 1], ends[i] - ends[i - 1]);
  for (const RateLimitConfig& each : config.rate_limits) {
    std::string subject;
    for (const std::string& kind : each.by)
      subject.append(subject.empty() ? "for each " : " and ").append(kind);
    std::string owner = subject;
    for (const std::string& model : each.models) owner.append(" ").append(model);
    Rule& rule = rules_.emplace_back(Rule{.by = {}, .models = each.models, .limits = {}});
    std::ranges::transform(each.by, std::back_inserter(rule.by), subject_named);
    add(rule.limits, keys, owner, subject, each, replicas);
  }
}

std::size_t LimitTable::find(const Request& request, AppliedLimits& limits) const {
  std::size_t count = 0;
  for (const Limit& limit : of_tenant(request.info.identity.tenant.number))
    limits[count++] = {.limit = &limit, .key = limit.quota.key};
  for (const Rule& rule : rules_) {
    const std::string_view model = model_of(request);
    const bool is_for_model = std::ranges::any_of(
        rule.models, [&](const std::string& glob) { return matches_glob(glob, model); });
    if (!rule.models.empty() && !is_for_model) continue;
    std::uint64_t subjects = 0;
    const bool has_all = std::ranges::all_of(rule.by, [&](const LimitSubject& subject) {
      const auto hash = subject_hash(subject, request);
      subjects = hash_of(subjects, hash.value_or(0));
      return hash.has_value();
    });
    if (!has_all) continue;
    for (const Limit& limit : rule.limits)
      limits[count++] = {.limit = &limit, .key = hash_of(limit.quota.key, subjects) & ~tenant_bit};
  }
  return count;
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
                     .may_refuse = limit.over == OverLimit::refuse});
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
  if (!counts_tokens(limit.unit) || !estimate_.guesses_output) return amount;
  const double share = limit.quota.rate.period < LimitPeriod::day ? limit.quota.burst : 1;
  const auto grantable =
      static_cast<std::uint64_t>(static_cast<double>(limit.local.rate.amount) * share);
  const std::uint64_t least = limit.unit == LimitUnit::output_tokens ? 1 : estimate_.input;
  return std::max(std::min(amount, grantable), std::min(amount, least));
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
    LimitStanding& standing = counts_tokens(limit.unit) ? tokens_ : requests_;
    if (standing.limit == 0 || standing.remaining > state.remaining) {
      standing = {
          .limit = limit.quota.rate.amount, .remaining = state.remaining, .reset = state.reset};
    }
  }
  if (state.granted) {
    held_ |= std::uint32_t{1} << number;
    return std::nullopt;
  }
  if (limit.over == OverLimit::refuse)
    return LimitRefusal{.limit = &limit, .state = state, .amount = asked_of(limit)};
  is_over_ = true;
  return std::nullopt;
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
    if (store_ != nullptr) {
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
