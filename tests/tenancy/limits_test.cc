#include "evenkeel/tenancy/limits.h"

#include <gtest/gtest.h>

#include <limits>

namespace evenkeel {
namespace {

Config config_with(LimitsConfig limits) {
  Config config;
  config.tenants = {{.name = "other", .limits = {.requests = {{1, LimitPeriod::day}}}},
                    {.name = "acme", .limits = std::move(limits)}};
  return config;
}

/// A request of the second tenant.
const Request& of_acme() {
  static const Request request = [] {
    Request made;
    made.info.identity.tenant = {.name = "acme", .number = 2};
    return made;
  }();
  return request;
}

QuotaTime now() { return QuotaTime::current(); }

TEST(Reservation, TakesTheEstimateAndSettlesWhatWasUsed) {
  const LimitTable table(config_with({.tokens = {{1000, LimitPeriod::day}}}));
  LimitUse use;
  {
    Reservation first(use, table, of_acme());
    EXPECT_FALSE(first.take({.input = 100, .output = 500}, now()));
    EXPECT_EQ(first.tokens().remaining, 400U);
    Reservation second(use, table, of_acme());
    const auto refusal = second.take({.input = 100, .output = 500}, now());
    ASSERT_TRUE(refusal);
    EXPECT_EQ(text_of(*refusal->limit), "1000 tokens per day");
    EXPECT_EQ(refusal->amount, 600U);
    first.set_used({.input = 110, .output = 40});
  }
  Reservation third(use, table, of_acme());
  EXPECT_FALSE(third.take({.input = 100, .output = 500}, now()));
  EXPECT_EQ(third.tokens().remaining, 250U);
}

TEST(Reservation, TakesNothingWhereOneLimitRefuses) {
  const LimitTable table(config_with({.requests = {{10, LimitPeriod::day}},
                                      .tokens = {{1000, LimitPeriod::day}},
                                      .concurrent = 5}));
  LimitUse use;
  for (int i = 0; i < 20; ++i) {
    Reservation large(use, table, of_acme());
    EXPECT_TRUE(large.take({.input = 2000}, now()));
  }
  Reservation small(use, table, of_acme());
  EXPECT_FALSE(small.take({.input = 1}, now()));
  EXPECT_EQ(small.requests().remaining, 9U);
  EXPECT_EQ(small.tokens().remaining, 999U);
}

TEST(Reservation, KeepsARequestCountedThatHasUsedNothing) {
  const LimitTable table(config_with({.requests = {{2, LimitPeriod::day}}}));
  LimitUse use;
  for (int i = 0; i < 2; ++i) {
    Reservation reservation(use, table, of_acme());
    EXPECT_FALSE(reservation.take({}, now()));
  }
  Reservation reservation(use, table, of_acme());
  EXPECT_TRUE(reservation.take({}, now()));
}

TEST(Reservation, CountsRequestsUntilTheyEnd) {
  const LimitTable table(config_with({.concurrent = 1}));
  LimitUse use;
  {
    Reservation first(use, table, of_acme());
    EXPECT_FALSE(first.take({}, now()));
    Reservation second(use, table, of_acme());
    EXPECT_TRUE(second.take({}, now()));
  }
  Reservation third(use, table, of_acme());
  EXPECT_FALSE(third.take({}, now()));
}

TEST(Reservation, ServesWhatIsBeyondALimitThatLowersThePriority) {
  const LimitTable table(config_with(
      {.requests = {{1, LimitPeriod::day}}, .concurrent = 1, .over = OverLimit::batch}));
  LimitUse use;
  {
    Reservation first(use, table, of_acme());
    EXPECT_FALSE(first.take({}, now()));
    EXPECT_FALSE(first.is_over());
    Reservation second(use, table, of_acme());
    EXPECT_FALSE(second.take({}, now()));
    EXPECT_TRUE(second.is_over());
  }
  EXPECT_EQ(use.of_file.inside(table.of_tenant(2)[0].quota.key), 0U);
}

TEST(Reservation, ShowsTheLimitOfWhichLeastIsLeft) {
  const LimitTable table(config_with(
      {.tokens = {{100, LimitPeriod::day}, {1000, LimitPeriod::hour}, {50, LimitPeriod::minute}}}));
  LimitUse use;
  Reservation reservation(use, table, of_acme());
  EXPECT_FALSE(reservation.take({.input = 20}, now()));
  EXPECT_EQ(reservation.tokens().limit, 50U);
  EXPECT_EQ(reservation.tokens().remaining, 30U);
}

TEST(LimitsOfCost, AreReservedAndSettledInMillionths) {
  const LimitTable table(config_with({.cost = {{5'000'000, LimitPeriod::month}}}));
  EXPECT_TRUE(table.counts_cost());
  EXPECT_EQ(text_of(table.of_tenant(2)[0]), "a cost of 5 per month");
  LimitUse use;
  {
    Reservation first(use, table, of_acme());
    EXPECT_FALSE(first.take({.input = 10, .output = 50, .cost = 3'000'000}, now()));
    EXPECT_EQ(first.cost().remaining, 2'000'000U);
    EXPECT_EQ(first.tokens().limit, 0U) << "no limit is one of tokens";
    Reservation second(use, table, of_acme());
    EXPECT_TRUE(second.take({.input = 10, .output = 50, .cost = 3'000'000}, now()));
    first.set_used({.input = 10, .output = 5, .cost = 250'000});
  }
  Reservation third(use, table, of_acme());
  EXPECT_FALSE(third.take({.cost = 4'750'000}, now()));
}

TEST(LimitsOfCost, LetPassWhatCostsNothing) {
  const LimitTable table(config_with({.cost = {{100, LimitPeriod::day}}}));
  LimitUse use;
  {
    Reservation large(use, table, of_acme());
    EXPECT_FALSE(large.take({.cost = 100}, now()));
    large.set_used({.cost = 5'000});
  }
  Reservation priced(use, table, of_acme());
  EXPECT_TRUE(priced.take({.cost = 1}, now()));
  {
    Reservation free(use, table, of_acme());
    EXPECT_FALSE(free.take({.input = 1000}, now()));
    free.set_used({.cost = 7});  // the pool has served a model that has a price
  }
  EXPECT_EQ(use.state_of(table.of_tenant(2)[0], now()).used, 5'007U);
}

TEST(LimitsOfCost, AskForNoMoreOfAGuessedOutputThanALimitGrants) {
  const LimitTable table(config_with({.cost = {{1000, LimitPeriod::day}}}));
  LimitUse use;
  Reservation guessed(use, table, of_acme());
  EXPECT_FALSE(guessed.take({.cost = 9'000, .input_cost = 10, .guesses_output = true}, now()));
  LimitUse other;
  Reservation asked(other, table, of_acme());
  const auto refusal = asked.take({.cost = 9'000, .input_cost = 10}, now());
  ASSERT_TRUE(refusal);
  EXPECT_EQ(refusal->state.retry_after, QuotaState::never_granted);
  Reservation long_prompt(other, table, of_acme());
  EXPECT_TRUE(
      long_prompt.take({.cost = 9'000, .input_cost = 2'000, .guesses_output = true}, now()));
}

TEST(LimitsOfCost, StayAtTheirLargestAmountWhereAPriceIsAMillionTimesTooHigh) {
  constexpr std::uint64_t huge = std::numeric_limits<std::uint64_t>::max();
  const LimitTable table(config_with({.cost = {{10'000'000'000'000, LimitPeriod::month},
                                               {10'000'000'000'000, LimitPeriod::second}}}));
  LimitUse use;
  {
    Reservation dear(use, table, of_acme());
    const auto refusal = dear.take({.cost = huge, .input_cost = huge}, now());
    ASSERT_TRUE(refusal);
    EXPECT_EQ(refusal->state.retry_after, QuotaState::never_granted);
    Reservation cheap(use, table, of_acme());
    EXPECT_FALSE(cheap.take({.cost = 1}, now()));
    Reservation other(use, table, of_acme());
    EXPECT_FALSE(other.take({.cost = 1}, now()));
    cheap.set_used({.cost = huge});
    other.set_used({.cost = huge});
  }
  const QuotaState month = use.state_of(table.of_tenant(2)[0], now());
  EXPECT_GE(month.used, 10'000'000'000'000U);
  EXPECT_EQ(month.remaining, 0U);
  Reservation later(use, table, of_acme());
  const auto refusal = later.take({.cost = 1}, now());
  ASSERT_TRUE(refusal) << "the month is over";
  EXPECT_NE(refusal->state.retry_after, QuotaState::never_granted);
}

TEST(Budgets, AreOfAllRequestsTogether) {
  Config config;
  const PoolConfig pool{
      .name = "hosted",
      .budget = {.tokens = {{100, LimitPeriod::day}}, .cost = {{2'000'000, LimitPeriod::month}}}};
  const LimitTable table(config, pool);
  ASSERT_EQ(table.of_all().size(), 2U);
  EXPECT_EQ(text_of(table.of_all()[0]), "100 tokens per day");
  EXPECT_EQ(text_of(table.of_all()[1]), "a cost of 2 per month");

  LimitUse use;
  Reservation first(use, table, of_acme());
  EXPECT_FALSE(first.take({.input = 60}, now()));
  Request other;
  Reservation second(use, table, other);
  EXPECT_TRUE(second.take({.input = 60}, now()));
  EXPECT_EQ(use.state_of(table.of_all()[0], now()).used, 60U);
}

TEST(Budgets, AreFoundByTheNameOfTheirPoolAndNotByThatOfATenant) {
  Config config = config_with({.tokens = {{100, LimitPeriod::day}}});
  const BudgetConfig budget{.tokens = {{100, LimitPeriod::day}}};
  const LimitTable acme(config, {.name = "acme", .budget = budget});
  const LimitTable again(config, {.name = "acme", .budget = budget});
  const LimitTable other(config, {.name = "other", .budget = budget});
  const LimitTable tenants(config);
  EXPECT_EQ(acme.of_all()[0].quota.key, again.of_all()[0].quota.key);
  EXPECT_NE(acme.of_all()[0].quota.key, other.of_all()[0].quota.key);
  EXPECT_NE(acme.of_all()[0].quota.key, tenants.of_tenant(2)[0].quota.key);
}

TEST(Budgets, NeedUseToBeCounted) {
  Config config;
  EXPECT_FALSE(has_limits(config));
  config.pools.push_back({.name = "a", .budget = {.cost = {{1, LimitPeriod::month}}}});
  EXPECT_TRUE(has_limits(config));
  EXPECT_TRUE(has_limits(config_with({})));
}

TEST(LimitTable, HasNoneForRequestsWithoutATenant) {
  const LimitTable table(config_with({.concurrent = 1}));
  EXPECT_TRUE(table.of_tenant(0).empty());
  EXPECT_TRUE(table.of_tenant(3).empty());
  EXPECT_EQ(table.of_tenant(1).size(), 1U);
}

Config config_with_rule(std::vector<std::string> by, LimitsConfig limits,
                        std::vector<std::string> models = {}) {
  Config config;
  config.rate_limits = {{std::move(limits), std::move(by), std::move(models)}};
  return config;
}

Request from(std::string_view client, std::string_view model = {}) {
  Request request;
  request.info.identity.client = client;
  if (model.empty()) return request;
  request.info.inference = std::make_unique<InferenceInfo>();
  request.info.inference->request.model = model;
  return request;
}

/// The number of requests of this kind that are granted at once.
int granted(LimitUse& use, const LimitTable& table, const Request& request) {
  int count = 0;
  for (; count < 100; ++count) {
    Reservation reservation(use, table, request);
    if (reservation.is_empty()) return -1;
    if (reservation.take({}, now())) return count;
  }
  return count;
}

/// A store that answers at once, or not at all.
class FakeStore final : public QuotaStore {
 public:
  Task<std::optional<std::vector<QuotaState>>> take(std::vector<Ask> asked) override {
    if (!answers) return std::optional<std::vector<QuotaState>>();
    std::vector<QuotaState> states;
    bool refuses = false;
    for (const Ask& each : asked) {
      states.push_back(quotas.look(each.quota, each.amount, QuotaTime::current()));
      refuses = refuses || (each.may_refuse && !states.back().granted);
    }
    for (const Ask& each : asked) {
      if (!refuses) quotas.take(each.quota, each.amount, QuotaTime::current());
    }
    return std::optional(std::move(states));
  }
  void settle(std::vector<Settlement> settlements) override {
    for (const Settlement& each : settlements)
      quotas.settle(each.quota, each.taken, each.used, each.taken_at, QuotaTime::current());
  }

  QuotaTable quotas{64};
  bool answers = true;
};

Config shared(LimitsConfig limits) {
  Config config = config_with(std::move(limits));
  config.shared_state = SharedStateConfig{.replicas = 4};
  return config;
}

std::optional<LimitRefusal> take_shared(Reservation& reservation, FakeStore& store,
                                        const TokenUse& estimate,
                                        StoreFailure on_failure = StoreFailure::local) {
  return reservation.take_shared(store, on_failure, estimate, now()).take();
}

TEST(SharedLimits, HoldForAllReplicas) {
  const LimitTable table(shared({.tokens = {{1000, LimitPeriod::day}}}));
  LimitUse use[2];
  FakeStore store;
  {
    Reservation first(use[0], table, of_acme());
    EXPECT_FALSE(take_shared(first, store, {.input = 600}));
    Reservation second(use[1], table, of_acme());
    EXPECT_TRUE(take_shared(second, store, {.input = 600}));
    first.set_used({.input = 200});
  }
  Reservation third(use[1], table, of_acme());
  EXPECT_FALSE(take_shared(third, store, {.input = 600}));
  EXPECT_EQ(third.tokens().remaining, 200U);
}

TEST(SharedLimits, OfCostLetPassWhatCostsNothing) {
  const LimitTable table(shared({.cost = {{1000, LimitPeriod::day}}}));
  LimitUse use;
  FakeStore store;
  {
    Reservation first(use, table, of_acme());
    EXPECT_FALSE(take_shared(first, store, {.cost = 1000}));
    first.set_used({.cost = 4000});
  }
  Reservation priced(use, table, of_acme());
  EXPECT_TRUE(take_shared(priced, store, {.cost = 1}));
  Reservation free(use, table, of_acme());
  EXPECT_FALSE(take_shared(free, store, {.input = 50}));
}

TEST(SharedLimits, AreOfEachReplicaItsShareWhileTheStoreIsAway) {
  const LimitTable table(shared({.tokens = {{1000, LimitPeriod::day}}, .concurrent = 8}));
  LimitUse use;
  FakeStore store;
  Reservation first(use, table, of_acme());
  EXPECT_FALSE(take_shared(first, store, {.input = 100}));
  store.answers = false;
  Reservation second(use, table, of_acme());
  EXPECT_FALSE(take_shared(second, store, {.input = 150})) << "250 are its share";
  Reservation third(use, table, of_acme());
  EXPECT_TRUE(take_shared(third, store, {.input = 1}));
  Reservation fourth(use, table, of_acme());
  EXPECT_TRUE(take_shared(fourth, store, {})) << "two of eight at a time";
}

TEST(SharedLimits, KnowInTheEndWhatAReplicaHasGrantedItself) {
  const LimitTable table(shared({.tokens = {{1000, LimitPeriod::day}}}));
  LimitUse use;
  FakeStore store;
  store.answers = false;
  {
    Reservation alone(use, table, of_acme());
    EXPECT_FALSE(take_shared(alone, store, {.input = 200}));
    alone.set_used({.input = 150});
  }
  store.answers = true;
  Reservation next(use, table, of_acme());
  EXPECT_FALSE(take_shared(next, store, {.input = 50}));
  EXPECT_EQ(next.tokens().remaining, 800U);
}

TEST(SharedLimits, AreOpenOrClosedWhileTheStoreIsAwayAsTheFileSays) {
  const LimitTable table(shared({.requests = {{1, LimitPeriod::day}}}));
  LimitUse use;
  FakeStore store;
  store.answers = false;
  for (int i = 0; i < 3; ++i) {
    Reservation open(use, table, of_acme());
    EXPECT_FALSE(take_shared(open, store, {}, StoreFailure::open));
  }
  Reservation closed(use, table, of_acme());
  const auto refusal = take_shared(closed, store, {}, StoreFailure::closed);
  ASSERT_TRUE(refusal);
  EXPECT_EQ(refusal->limit, nullptr);
}

TEST(RateLimits, AreOfEachAddressAndOfTheNetworkOfAnIpv6Address) {
  const LimitTable table(config_with_rule({"address"}, {.requests = {{3, LimitPeriod::day}}}));
  LimitUse use;
  EXPECT_EQ(granted(use, table, from("10.0.0.1")), 3);
  EXPECT_EQ(granted(use, table, from("10.0.0.1")), 0);
  EXPECT_EQ(granted(use, table, from("10.0.0.2")), 3);
  EXPECT_EQ(granted(use, table, from("2001:db8::1")), 3);
  EXPECT_EQ(granted(use, table, from("2001:db8::2")), 0);
}

TEST(RateLimits, AreOfEachCombination) {
  const LimitTable table(
      config_with_rule({"address", "model"}, {.requests = {{2, LimitPeriod::day}}}));
  LimitUse use;
  EXPECT_EQ(granted(use, table, from("10.0.0.1", "a")), 2);
  EXPECT_EQ(granted(use, table, from("10.0.0.1", "b")), 2);
  EXPECT_EQ(granted(use, table, from("10.0.0.2", "a")), 2);
  EXPECT_EQ(granted(use, table, from("10.0.0.1", "a")), 0);
  EXPECT_EQ(granted(use, table, from("10.0.0.1")), -1) << "it names no model";
}

TEST(RateLimits, AreOfRequestsForCertainModels) {
  const LimitTable table(
      config_with_rule({"address"}, {.requests = {{2, LimitPeriod::day}}}, {"llama-*"}));
  LimitUse use;
  EXPECT_EQ(granted(use, table, from("10.0.0.1", "llama-8b")), 2);
  EXPECT_EQ(granted(use, table, from("10.0.0.1", "llama-70b")), 0);
  EXPECT_EQ(granted(use, table, from("10.0.0.1", "qwen")), -1);
  EXPECT_EQ(granted(use, table, from("10.0.0.1")), -1);
}

TEST(RateLimits, AreOfEachValueOfAHeader) {
  const LimitTable table(config_with_rule({"header:x-user"}, {.concurrent = 1}));
  LimitUse use;
  Request request;
  EXPECT_EQ(granted(use, table, request), -1);
  request.fields.add("X-User", "ann");
  Reservation first(use, table, request);
  EXPECT_FALSE(first.take({}, now()));
  Reservation second(use, table, request);
  const auto refusal = second.take({}, now());
  ASSERT_TRUE(refusal);
  EXPECT_EQ(text_of(*refusal->limit), "1 request at a time for each header:x-user");
}

TEST(OutputEstimates, SettleWhereOneOutputInTwentyIsLonger) {
  OutputEstimates estimates;
  InferenceRequest request{.task = InferenceTask::chat, .model = "m"};
  EXPECT_EQ(estimates.tokens_of(request), 1024U);
  for (std::uint64_t i = 0; i < 20'000; ++i) estimates.learn(request, i * 7919 % 1000 + 1);
  EXPECT_GT(estimates.tokens_of(request), 750U);
  EXPECT_LT(estimates.tokens_of(request), 1200U);

  request.max_tokens = 10;
  request.choices = 3;
  EXPECT_EQ(estimates.tokens_of(request), 30U);
}

TEST(OutputEstimates, KnowThatOtherTasksGenerateNothing) {
  OutputEstimates estimates;
  const InferenceRequest request{.task = InferenceTask::embedding, .model = "m"};
  estimates.learn(request, 5000);
  EXPECT_EQ(estimates.tokens_of(request), 0U);
}

}  // namespace
}  // namespace evenkeel
