#include "evenkeel/upstream/redis_quotas.h"

#include <fmt/format.h>

#include <chrono>
#include <string>
#include <string_view>
#include <utility>

#include "evenkeel/base/decimal.h"

namespace evenkeel {
namespace {

using std::chrono::milliseconds;

/// A rate is kept as the time at which it is free again, in microseconds since 1970; a day or month
/// as what is used of it. The arguments of each key: whether it is a rate, the most that may be
/// used, what is taken, whether that may be refused, and how long the key is kept in milliseconds.
/// Returns the number of the first key that refuses, or 0, then what was used of each before.
constexpr std::string_view take_script = R"(
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local result, after = {0}, {}
for i = 1, #KEYS do
  local a = (i - 1) * 5
  local is_rate, most, cost = ARGV[a + 1] == '1', tonumber(ARGV[a + 2]), tonumber(ARGV[a + 3])
  local used = tonumber(redis.call('GET', KEYS[i]) or '0')
  if is_rate then used = math.max(used - now, 0) end
  result[i + 1] = string.format('%.0f', used)
  if used + cost <= most then
    after[i] = used + cost
  elseif ARGV[a + 4] == '1' and result[1] == 0 then
    result[1] = i
  end
end
if result[1] ~= 0 then return result end
for i, used in pairs(after) do
  local value, kept = used, ARGV[i * 5]
  if ARGV[i * 5 - 4] == '1' then value, kept = now + used, math.ceil(used / 1000) + 1000 end
  redis.call('SET', KEYS[i], string.format('%.0f', value), 'PX', string.format('%.0f', kept))
end
return result
)";

/// The arguments of each key: whether it is a rate, what is added, which may be negative, and how
/// long the key is kept.
constexpr std::string_view settle_script = R"(
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
for i = 1, #KEYS do
  local a = (i - 1) * 3
  local is_rate, value, kept = ARGV[a + 1] == '1', tonumber(redis.call('GET', KEYS[i]) or '0'), ARGV[a + 3]
  local used = value
  if is_rate then used = math.max(value - now, 0) end
  used = math.max(used + tonumber(ARGV[a + 2]), 0)
  if is_rate then value, kept = now + used, math.ceil(used / 1000) + 1000 else value = used end
  redis.call('SET', KEYS[i], string.format('%.0f', value), 'PX', string.format('%.0f', kept))
end
return 0
)";

/// Keys of days and months outlive these, since the clocks of replicas may differ.
constexpr Duration kept_longer = std::chrono::hours(1);
constexpr std::int64_t nanoseconds_per_unit = 1000;

std::string key_of(const Quota& quota, const QuotaDemand& demand) {
  return fmt::format("evenkeel:{{limits}}:{:016x}:{}", quota.key, demand.period);
}

/// What is used of a quota, as the scripts have it.
std::int64_t in_units(const QuotaDemand& demand, std::int64_t used) {
  if (!demand.is_rate) return used;
  return (used + nanoseconds_per_unit - 1) / nanoseconds_per_unit;
}

std::string kept_for(const QuotaDemand& demand) {
  return std::to_string(std::chrono::ceil<milliseconds>(demand.rest + kept_longer).count());
}

/// Collects what is settled by one call.
struct SettleCall {
  std::vector<std::string> keys;
  std::vector<std::string> arguments;

  void add(const Quota& quota, const QuotaDemand& demand, bool is_more) {
    const std::int64_t cost = in_units(demand, demand.cost);
    keys.push_back(key_of(quota, demand));
    arguments.insert(arguments.end(), {demand.is_rate ? "1" : "0",
                                       std::to_string(is_more ? cost : -cost), kept_for(demand)});
  }
  RedisClient::Words words() const {
    if (keys.empty()) return {};
    RedisClient::Words all = {std::to_string(keys.size())};
    all.insert(all.end(), keys.begin(), keys.end());
    all.insert(all.end(), arguments.begin(), arguments.end());
    return all;
  }
};

constexpr std::size_t take_number = 0;
constexpr std::size_t settle_number = 1;

}  // namespace

RedisQuotas::RedisQuotas(Loop& loop, RedisOptions options, bool logs)
    : client_(loop, std::move(options), {std::string(take_script), std::string(settle_script)},
              logs ? "limits" : "") {}

Task<std::optional<std::vector<QuotaState>>> RedisQuotas::take(std::vector<Ask> asked) {
  const QuotaTime time = QuotaTime::current();
  std::vector<std::string> words = {std::to_string(asked.size())};
  std::vector<std::string> arguments;
  std::vector<QuotaDemand> demands;
  SettleCall undo;  // of what was taken for an answer that comes too late
  for (const Ask& each : asked) {
    const QuotaDemand& demand = demands.emplace_back(demand_of(each.quota, each.amount, time));
    if (each.may_refuse) undo.add(each.quota, demand, false);
    words.push_back(key_of(each.quota, demand));
    arguments.insert(arguments.end(),
                     {demand.is_rate ? "1" : "0", std::to_string(in_units(demand, demand.most)),
                      std::to_string(in_units(demand, demand.cost)), each.may_refuse ? "1" : "0",
                      kept_for(demand)});
  }
  words.insert(words.end(), arguments.begin(), arguments.end());
  // Named: g++ 12 destroys a temporary with members twice, beside a co_await.
  RedisClient::Undo late{.script = settle_number, .words = undo.words()};
  auto reply = co_await client_.call(take_number, std::move(words), std::move(late));
  if (!reply || reply->items.size() != asked.size() + 1) co_return std::nullopt;
  const auto refusing = static_cast<std::size_t>(reply->items[0].integer);
  std::vector<QuotaState> states;
  for (std::size_t i = 0; i < asked.size(); ++i) {
    const auto used = parse_number<std::int64_t>(reply->items[i + 1].text);
    if (!used) co_return std::nullopt;
    states.push_back(
        state_after(demands[i], demands[i].is_rate ? *used * nanoseconds_per_unit : *used));
    // What the script has decided counts, whatever comes of its rounding here.
    if (asked[i].may_refuse) states.back().granted = refusing == 0 || i + 1 < refusing;
  }
  co_return states;
}

void RedisQuotas::settle(std::vector<Settlement> settlements) {
  const QuotaTime time = QuotaTime::current();
  SettleCall call;
  for (const Settlement& each : settlements) {
    if (each.taken == each.used) continue;
    const bool is_more = each.used > each.taken;
    const QuotaDemand demand =
        demand_of(each.quota, is_more ? each.used - each.taken : each.taken - each.used, time);
    const bool is_over =
        !demand.is_rate && demand_of(each.quota, 0, each.taken_at).period != demand.period;
    if (!is_over || is_more) call.add(each.quota, demand, is_more);
  }
  if (!call.keys.empty()) client_.tell(settle_number, call.words());
}

}  // namespace evenkeel
