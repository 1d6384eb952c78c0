#include "evenkeel/filter/price_list.h"

#include <gtest/gtest.h>

#include <limits>
#include <utility>

namespace evenkeel {
namespace {

constexpr std::uint64_t most = std::numeric_limits<std::uint64_t>::max();

Config config_with(std::vector<ModelPrice> prices, std::vector<PoolConfig> pools = {}) {
  Config config;
  config.usage.prices = std::move(prices);
  config.pools = std::move(pools);
  return config;
}

InferenceInfo asking_for(std::string model, std::string_view served = {}) {
  InferenceInfo info;
  info.request.model = std::move(model);
  info.served_model = served;
  return info;
}

TEST(PriceList, GoesByTheNameThatTheBackendGot) {
  const PriceList prices(
      std::vector<ModelPrice>{{.model = "gpt-*", .input = 2}, {.model = "small", .input = 1}});
  EXPECT_EQ(prices.find(asking_for("small", "gpt-large"))->input, 2'000'000u);
  EXPECT_EQ(prices.find(asking_for("small", "unknown"))->input, 1'000'000u);
  EXPECT_EQ(prices.find(asking_for("small"))->input, 1'000'000u);
  EXPECT_EQ(prices.find(asking_for("large")), nullptr);
  EXPECT_EQ(prices.find(asking_for("")), nullptr);
}

TEST(PriceList, PricesCachedInputAsTheRestUnlessItSaysOtherwise) {
  const PriceList prices(std::vector<ModelPrice>{{.model = "a", .input = 3},
                                                 {.model = "b", .input = 3, .cached_input = 0.5}});
  const BilledTokens tokens{.input = 1'000'000, .output = 0, .cached = 400'000};
  EXPECT_EQ(cost_of(tokens, *prices.find(asking_for("a"))).text(), "3");
  EXPECT_EQ(cost_of(tokens, *prices.find(asking_for("b"))).text(), "2");
}

TEST(PriceList, KnowsTheHighestPriceThatARequestMayHaveInAnyPool) {
  const PriceList prices(config_with(
      {{.model = "own", .input = 1, .output = 1},
       {.model = "provider-*", .input = 5, .output = 0.5},
       {.model = "fixed", .input = 0, .output = 9}},
      {{.name = "own", .models = {"own", "free"}},
       {.name = "provider", .models = {"own"}, .model_names = {{"own", "provider-large"}}},
       {.name = "fixed", .models = {"alias"}, .model = "fixed"}}));
  EXPECT_EQ(prices.highest("own").input, 5'000'000u);
  EXPECT_EQ(prices.highest("own").output, 1'000'000u);
  EXPECT_EQ(prices.highest("alias").output, 9'000'000u);
  EXPECT_EQ(prices.highest("free").input, 0u);
  EXPECT_EQ(prices.highest("free").output, 0u);
  EXPECT_EQ(prices.highest("unknown").output, 9'000'000u) << "it may reach a pool all the same";
}

TEST(PriceList, HasThePriceOfAllModelsForWhatNamesNone) {
  const PriceList prices(
      config_with({{.model = "a", .output = 1}, {.model = "*", .output = 2}}, {}));
  EXPECT_EQ(prices.highest("").output, 2'000'000u);
  ASSERT_NE(prices.find(asking_for("")), nullptr);
}

TEST(PriceList, CountsThePoolThatServesAnyNameAsOneOfItsOwn) {
  const PriceList prices(
      config_with({{.model = "fixed", .output = 9}}, {{.name = "fixed", .model = "fixed"}}));
  EXPECT_EQ(prices.highest("whatever").output, 9'000'000u);
}

TEST(PriceList, StaysAtTheLargestAmount) {
  const Price price{.input = 100'000'000'000, .output = 100'000'000'000, .cached_input = most};
  EXPECT_EQ(cost_of({.input = most, .output = most, .cached = most}, price).millionths(), most);
}

}  // namespace
}  // namespace evenkeel
