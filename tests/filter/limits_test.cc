// Limits of cost and budgets of pools, as the filter keeps them.
#include "evenkeel/filter/limits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace evenkeel {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

/// A pool whose backend has counted these tokens.
class Answering final : public Handler {
 public:
  Task<Result<Response>> handle(Request& request) override {
    ++count;
    if (error) return Result<Response>(Error{.fault = *error});
    RequestInfo& info = request.info;
    info.timings.head_sent = Instant(1s);
    info.outcome.status = 200;
    if (info.inference != nullptr) {
      info.inference->served_model = served;
      info.inference->response.prompt_tokens = 100;
      info.inference->response.completion_tokens = 10;
      info.inference->response.cached_tokens = cached;
      info.inference->response.finish_reason = "stop";
    }
    Response response{.status = 200};
    response.body = make_body("{}");
    return Result<Response>(std::move(response));
  }

  std::optional<Fault> error;
  std::optional<std::uint64_t> cached;
  std::string_view served;
  int count = 0;
};

class LimitsOfMoney : public testing::Test {
 protected:
  LimitsOfMoney() {
    config.tenants = {{.name = "acme", .limits = {.cost = {{1'000'000, LimitPeriod::month}}}}};
    config.pools = {{.name = "hosted", .budget = {.cost = {{1'000'000, LimitPeriod::month}}}}};
    set_price(1);
  }

  /// A million tokens of input cost so much, those of output twice as much, cached ones a tenth.
  void set_price(double price) {
    config.usage.prices = {
        {.model = "m", .input = price, .output = 2 * price, .cached_input = price / 10}};
    prices = std::make_unique<PriceList>(config);
  }
  std::unique_ptr<LimitsFilter> limits() {
    return std::make_unique<LimitsFilter>(config, LimitsFilter::Counting{*prices, use, nullptr});
  }
  std::unique_ptr<LimitsFilter> budget() {
    return std::make_unique<LimitsFilter>(config, config.pools[0],
                                          LimitsFilter::Counting{*prices, use, nullptr});
  }
  static std::unique_ptr<Request> request(std::string model = "m", std::uint32_t max_tokens = 20) {
    auto made = std::make_unique<Request>();
    made->method = "POST";
    made->path = "/v1/chat/completions";
    made->info.identity.tenant = {.name = "acme", .number = 1};
    made->info.inference = std::make_unique<InferenceInfo>();
    InferenceRequest& asked = made->info.inference->request;
    asked.task = InferenceTask::chat;
    asked.model = std::move(model);
    asked.max_tokens = max_tokens;
    asked.estimated_prompt_tokens = 90;
    return made;
  }
  Result<Response> ask(LimitsFilter& filter, Request& request) {
    return filter.handle(request, pool).take();
  }
  /// In millionths.
  std::uint64_t used_of_acme() const {
    return use.state_of(LimitTable(config).of_tenant(1)[0], QuotaTime::current()).used;
  }
  std::uint64_t used_of_hosted() const {
    const LimitTable table(config, config.pools[0]);
    return use.state_of(table.of_all()[0], QuotaTime::current()).used;
  }

  Config config;
  std::unique_ptr<PriceList> prices;
  LimitUse use;
  Answering pool;
};

TEST_F(LimitsOfMoney, ReserveTheEstimateAndSettleWithCachedInput) {
  const auto filter = limits();
  const auto asked = request();
  pool.cached = 50;
  {
    auto answer = ask(*filter, *asked);
    ASSERT_TRUE(answer);
    EXPECT_EQ(used_of_acme(), 90u + 40u);
    EXPECT_EQ(answer->fields.value("x-ratelimit-limit-cost"), "1");
    EXPECT_EQ(answer->fields.value("x-ratelimit-remaining-cost"), "0.99987");
    EXPECT_FALSE(answer->fields.value("x-ratelimit-limit-tokens"));
  }
  EXPECT_EQ(used_of_acme(), 50u + 5u + 20u);
}

TEST_F(LimitsOfMoney, CountNothingForAModelWithoutAPrice) {
  const auto filter = limits();
  const auto asked = request("free");
  EXPECT_TRUE(ask(*filter, *asked));
  EXPECT_EQ(used_of_acme(), 0u);
}

TEST_F(LimitsOfMoney, SettleByTheNameThatTheBackendGot) {
  const auto filter = limits();
  const auto asked = request("alias");
  pool.served = "m";
  EXPECT_TRUE(ask(*filter, *asked));
  EXPECT_EQ(used_of_acme(), 120u);
}

TEST_F(LimitsOfMoney, SayWhatALimitIsInItsUnit) {
  set_price(10'000);
  const auto filter = limits();
  const auto asked = request();
  EXPECT_TRUE(ask(*filter, *request("m", 1)));
  const auto refused = ask(*filter, *asked);
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->status, 429);
  EXPECT_EQ(asked->info.outcome.fault, Fault::quota_exceeded);
  EXPECT_THAT(std::string(asked->info.outcome.detail),
              HasSubstr("the limit of a cost of 1 per month does not grant at once what this "
                        "request may cost: 1.3; send a shorter prompt"));
  const auto small = request("m", 1);
  ASSERT_TRUE(ask(*filter, *small));
  EXPECT_THAT(std::string(small->info.outcome.detail),
              HasSubstr("is reached: this request may cost 0.92, 0 are left; try again in"));
}

TEST_F(LimitsOfMoney, UseACorrectedPriceForLaterRequestsOnly) {
  set_price(90'000);
  config.tenants[0].limits.cost[0].amount = 10'000'000'000'000;
  const auto wrong = limits();
  const auto in_flight = request();
  auto answer = ask(*wrong, *in_flight);
  ASSERT_TRUE(answer);
  const std::unique_ptr<PriceList> before = std::move(prices);
  set_price(0.09);
  const auto corrected = limits();
  EXPECT_TRUE(ask(*corrected, *request()));
  EXPECT_EQ(used_of_acme(), 130u * 90'000u + 11u);
  answer->body.reset();
  EXPECT_EQ(used_of_acme(), 120u * 90'000u + 11u);
}

TEST_F(LimitsOfMoney, OfAPoolAreAnErrorThatAnotherPoolMayTake) {
  set_price(1'000);
  const auto filter = budget();
  int granted = 0;
  for (; granted < 100; ++granted) {
    const auto asked = request();
    const auto answer = ask(*filter, *asked);
    if (!answer) {
      EXPECT_EQ(answer.error().fault, Fault::over_budget);
      EXPECT_EQ(answer.error().retry_after_ms, Error::never) << "the month is long";
      EXPECT_EQ(answer.error().detail, "hosted: its budget is used up");
      EXPECT_FALSE(asked->info.outcome.fault);
      break;
    }
    EXPECT_FALSE(answer->fields.value("x-ratelimit-limit-cost")) << "it is no concern of clients";
  }
  EXPECT_EQ(granted, 8) << "0.12 each, 0.13 before";
  EXPECT_EQ(used_of_hosted(), 960'000u);
}

TEST_F(LimitsOfMoney, OfAPoolSayWhenAShortPeriodGrantsTheRequest) {
  config.pools[0].budget = {.tokens = {{110, LimitPeriod::minute}}};
  const auto filter = budget();
  EXPECT_TRUE(ask(*filter, *request()));
  const auto refused = ask(*filter, *request());
  ASSERT_FALSE(refused);
  EXPECT_GT(refused.error().retry_after_ms, 50'000u);
  EXPECT_LE(refused.error().retry_after_ms, 60'000u);
  const auto large = ask(*filter, *request("m", 1000));
  ASSERT_FALSE(large);
  EXPECT_EQ(large.error().retry_after_ms, Error::never);
  EXPECT_THAT(large.error().detail, HasSubstr("smaller max_tokens"));
}

TEST_F(LimitsOfMoney, OfAPoolDoNotCountWhatAsksNoModel) {
  config.pools[0].budget = {.tokens = {{100, LimitPeriod::day}}};
  const auto filter = budget();
  Request list{.method = "GET", .path = "/v1/models"};
  EXPECT_TRUE(ask(*filter, list));
  EXPECT_EQ(used_of_hosted(), 0u);
  Request socket{.method = "GET", .path = "/v1/realtime", .upgrade = "websocket"};
  socket.info.outcome.bytes_out = 4'000;
  EXPECT_TRUE(ask(*filter, socket));
  EXPECT_EQ(used_of_hosted(), 1'000u);
}

/// A store that does not answer.
class AbsentStore final : public QuotaStore {
 public:
  Task<std::optional<std::vector<QuotaState>>> take(std::vector<Ask> /*asked*/) override {
    return std::optional<std::vector<QuotaState>>();
  }
  void settle(std::vector<Settlement> /*settlements*/) override {}
};

TEST_F(LimitsOfMoney, OfAPoolGoByTheFileWhereTheSharedStateDoesNotAnswer) {
  AbsentStore store;
  const auto ask_with = [&](StoreFailure on_failure) {
    config.shared_state = SharedStateConfig{.on_failure = on_failure, .replicas = 1};
    LimitsFilter filter(config, config.pools[0], {*prices, use, &store});
    const auto asked = request();
    auto answer = filter.handle(*asked, pool).take();
    return answer ? std::string() : std::string(answer.error().detail);
  };
  EXPECT_EQ(ask_with(StoreFailure::local), "");
  EXPECT_EQ(ask_with(StoreFailure::open), "");
  EXPECT_EQ(ask_with(StoreFailure::closed),
            "hosted: its budget cannot be checked: the shared state does not answer");
}

TEST_F(LimitsOfMoney, OfAPoolGiveBackWhatAFailedRequestHadTaken) {
  const auto filter = budget();
  pool.error = Fault::connect_failed;
  EXPECT_FALSE(ask(*filter, *request()));
  EXPECT_EQ(used_of_hosted(), 0u);
}

}  // namespace
}  // namespace evenkeel
