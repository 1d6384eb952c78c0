#include "proxy/fallback.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace evenkeel {
namespace {

/// Answers with a status, or refuses.
class Answering final : public Handler {
 public:
  explicit Answering(std::optional<int> answer = std::nullopt) : status(answer) {}
  Task<Result<Response>> handle(Request& request) override {
    ++count;
    if (request.body != nullptr) request.body->commit(false);
    if (!status) return Result<Response>(Error{.fault = refusal});
    return Result<Response>(Response{.status = *status});
  }

  std::optional<int> status;
  Fault refusal = Fault::no_backend;
  int count = 0;
};

class Fallbacks : public testing::Test {
 protected:
  Request asking_for(const std::string& model) {
    Request request{.method = "POST", .path = "/v1/chat/completions"};
    request.info.inference = std::make_unique<InferenceInfo>();
    request.info.inference->request.model = model;
    return request;
  }
  /// The status; 0: the first pool's refusal.
  int status_of(Handler&& handler, Request request) {
    return status_of(handler, std::move(request));
  }
  int status_of(Handler& handler, Request request) {
    auto answer = handler.handle(request).take();
    pool_index = request.info.identity.pool_index;
    return answer ? answer->status : 0;
  }
  Fallback fallback() { return {first, second_pool, when, &catalog, registry.worker_metrics(0)}; }

  MetricsRegistry registry{1};
  Answering first;
  Answering second{200};
  PoolConfig pool{.name = "second"};
  PlanPool second_pool{.config = pool, .index = 2, .first = &second};
  std::vector<FallbackReason> when = FallbackConfig{}.when;
  std::shared_ptr<const ModelCatalog> catalog;
  std::uint32_t pool_index = 0;
};

TEST_F(Fallbacks, GetRequestsForModelsThatTheOtherPoolMayHave) {
  Fallback handler = fallback();
  EXPECT_EQ(status_of(handler, asking_for("a")), 200);
  pool.models = {"a"};
  EXPECT_EQ(status_of(handler, asking_for("a")), 200);
  EXPECT_EQ(status_of(handler, {.method = "GET", .path = "/"}), 200);
  EXPECT_EQ(pool_index, 2u);
}

TEST_F(Fallbacks, LeaveTheFirstPoolsAnswerToRequestsForOtherModels) {
  Fallback handler = fallback();
  pool.models = {"b"};
  EXPECT_EQ(status_of(handler, asking_for("a")), 0);
  EXPECT_EQ(second.count, 0);
  EXPECT_EQ(pool_index, 0u);

  pool.models.clear();
  pool.model = "served";
  EXPECT_EQ(status_of(handler, asking_for("a")), 200);
}

TEST_F(Fallbacks, GoByWhatTheOtherPoolListsIfTheFileDoesNotSay) {
  Fallback handler = fallback();
  const auto lists = [this](PoolModels models) {
    catalog = std::make_shared<const ModelCatalog>(
        ModelCatalog::Pools{{"second", std::make_shared<const PoolModels>(std::move(models))}});
  };
  lists({.available = true, .known = true, .models = {{.id = "b"}}});
  EXPECT_EQ(status_of(handler, asking_for("a")), 0);
  EXPECT_EQ(status_of(handler, asking_for("b")), 200);
  lists({.available = true, .known = false});
  EXPECT_EQ(status_of(handler, asking_for("a")), 200);
}

TEST_F(Fallbacks, SkipAPoolInTheMiddleThatLacksTheModel) {
  Answering third{201};
  const PoolConfig last{.name = "third", .models = {"a"}};
  const PlanPool third_pool{.config = last, .index = 3, .first = &third};
  second_pool.fallback = &third_pool;
  Fallback handler = fallback();
  pool.models = {"b"};
  EXPECT_EQ(status_of(handler, asking_for("a")), 201);
  EXPECT_EQ(second.count, 0);
  EXPECT_EQ(status_of(handler, asking_for("c")), 0);
}

TEST_F(Fallbacks, GetRequestsBeyondTheFirstPoolsBudgetIfTheyAreToHaveThem) {
  first.refusal = Fault::over_budget;
  EXPECT_EQ(status_of(fallback(), asking_for("a")), 200);
  when = {FallbackReason::down, FallbackReason::saturated};
  EXPECT_EQ(status_of(fallback(), asking_for("a")), 0);
}

TEST_F(Fallbacks, PreferTheFirstPoolsRefusalToABudgetThatIsUsedUp) {
  second.status = std::nullopt;
  second.refusal = Fault::over_budget;
  Fallback handler = fallback();
  Request request = asking_for("a");
  request.info.outcome.attempts.add({.backend = "10.0.0.1:8000"});
  auto answer = handler.handle(request).take();
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().fault, Fault::no_backend);
  EXPECT_EQ(request.info.identity.pool_index, 0u);
  ASSERT_EQ(request.info.outcome.attempts.size(), 1u) << "those at the first pool";
  EXPECT_EQ(request.info.outcome.attempts[0].backend, "10.0.0.1:8000");
  EXPECT_EQ(second.count, 1);
}

TEST_F(Fallbacks, PreferTheFirstPoolsRefusalToNotFound) {
  second.status = 404;
  Fallback handler = fallback();
  EXPECT_EQ(status_of(handler, asking_for("a")), 0);
  EXPECT_EQ(second.count, 1);
  EXPECT_EQ(pool_index, 0u);
  second.status = 400;
  EXPECT_EQ(status_of(handler, asking_for("a")), 400);
}

}  // namespace
}  // namespace evenkeel
