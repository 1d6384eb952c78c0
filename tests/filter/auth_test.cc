#include "evenkeel/filter/auth.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace evenkeel {
namespace {

using testing::HasSubstr;

class FixedRules final : public AccessRules {
 public:
  AuthRule rule_of(const Request&) const override { return rule; }
  CredentialState credential_of(const Request&) const override { return state; }
  std::string denial_of(const Request&) const override { return denial; }
  void remove_credential(Request&) const override { ++removals; }

  AuthRule rule = AuthRule::required;
  CredentialState state = CredentialState::accepted;
  std::string denial;
  mutable int removals = 0;
};

class CountingHandler final : public Handler {
 public:
  Task<Result<Response>> handle(Request&) override {
    ++requests;
    return Result<Response>(Response{});
  }
  int requests = 0;
};

class AuthFilterTest : public testing::Test {
 protected:
  AuthFilterTest() { request.path = "/v1/chat/completions"; }

  /// The fault of the filter's refusal; nothing: the request passed.
  std::optional<Fault> pass(Filter& filter) {
    auto handled = filter.handle(request, next);
    EXPECT_TRUE(handled.ready());
    auto result = handled.take();
    if (result) return std::nullopt;
    detail = result.error().detail;
    EXPECT_EQ(result.error().side, Side::client);
    return result.error().fault;
  }
  std::optional<Fault> admit_to(std::string model) {
    request.info.inference = std::make_unique<InferenceInfo>();
    request.info.inference->request.model = std::move(model);
    request.info.inference->request.complete = true;
    request.info.inference->request.task = InferenceTask::chat;
    return pass(authorization);
  }

  FixedRules rules;
  AuthFilter auth{rules};
  AuthorizationFilter authorization{auth, rules};
  CountingHandler next;
  Request request;
  std::string detail;
  const std::vector<std::string> llamas = {"llama-*"};
  const ApiKey small_ones{.id = "12345678", .name = {}, .models = {"*-7b", "tiny"}};
};

TEST_F(AuthFilterTest, RefusesWhatIsNotForTheTenant) {
  rules.denial = "this client may not use the method DELETE";
  AuthFilter filter(rules);
  EXPECT_EQ(pass(filter), Fault::tenant_not_allowed);
  EXPECT_EQ(next.requests, 0);
  rules.rule = AuthRule::off;
  EXPECT_EQ(pass(filter), std::nullopt) << "nothing is looked at";
}

TEST_F(AuthFilterTest, RefusesARequestThatLacksItsCredential) {
  rules.state = CredentialState::missing;
  EXPECT_EQ(pass(auth), Fault::unauthorized);
  EXPECT_THAT(detail, HasSubstr("no API key"));
  EXPECT_THAT(detail, HasSubstr("authorization: Bearer"));
  rules.state = CredentialState::unknown;
  EXPECT_EQ(pass(auth), Fault::unauthorized);
  EXPECT_THAT(detail, HasSubstr("not known"));
  rules.state = CredentialState::expired;
  EXPECT_EQ(pass(auth), Fault::unauthorized);
  EXPECT_THAT(detail, HasSubstr("expired"));
  rules.state = CredentialState::unnamed;
  EXPECT_EQ(pass(auth), Fault::unauthorized);
  EXPECT_THAT(detail, HasSubstr("client certificate is no tenant's"));
  EXPECT_EQ(next.requests, 0);
}

TEST_F(AuthFilterTest, OnAnOptionalRouteOnlyAWrongKeyIsRefused) {
  rules.rule = AuthRule::optional;
  for (const CredentialState none : {CredentialState::missing, CredentialState::unnamed}) {
    rules.state = none;
    EXPECT_EQ(pass(auth), std::nullopt);
  }
  rules.state = CredentialState::unknown;
  EXPECT_EQ(pass(auth), Fault::unauthorized);
}

TEST_F(AuthFilterTest, LooksAtNothingOnARouteThatIsOff) {
  rules.rule = AuthRule::off;
  rules.state = CredentialState::unknown;
  request.info.identity.tenant.models = &llamas;
  EXPECT_EQ(pass(auth), std::nullopt);
  EXPECT_EQ(admit_to("qwen"), std::nullopt);
  EXPECT_EQ(next.requests, 2);
}

TEST_F(AuthFilterTest, HasTheBodyReadOnlyForThoseWhoMayUseSomeModels) {
  EXPECT_EQ(pass(auth), std::nullopt);
  EXPECT_FALSE(request.info.identity.routing.reads_body);
  request.info.identity.tenant.models = &llamas;
  EXPECT_EQ(pass(auth), std::nullopt);
  EXPECT_TRUE(request.info.identity.routing.reads_body);
}

TEST_F(AuthFilterTest, ChecksTheCredentialAgainWhereTheRouteIsKnown) {
  rules.state = CredentialState::missing;
  EXPECT_EQ(pass(authorization), Fault::unauthorized);
  EXPECT_EQ(rules.removals, 0);
}

TEST_F(AuthFilterTest, NoBackendGetsTheCredential) {
  EXPECT_EQ(pass(authorization), std::nullopt);
  EXPECT_EQ(rules.removals, 1);
}

TEST_F(AuthFilterTest, AdmitsAnyModelWithoutALimit) { EXPECT_EQ(admit_to("any"), std::nullopt); }

TEST_F(AuthFilterTest, AdmitsOnlyModelsOfTheTenantAndOfTheKey) {
  request.info.identity.tenant.models = &llamas;
  EXPECT_EQ(admit_to("llama-70b"), std::nullopt);
  EXPECT_EQ(admit_to("qwen-7b"), Fault::model_not_allowed);
  EXPECT_THAT(detail, HasSubstr("qwen-7b"));
  request.info.identity.tenant.key = &small_ones;
  EXPECT_EQ(admit_to("llama-70b"), Fault::model_not_allowed);
  EXPECT_EQ(admit_to("llama-7b"), std::nullopt);
  EXPECT_EQ(admit_to("tiny"), Fault::model_not_allowed);
  request.info.identity.tenant.models = nullptr;
  EXPECT_EQ(admit_to("tiny"), std::nullopt);
}

TEST_F(AuthFilterTest, RefusesABodyThatMayNameAnotherModelAtItsEnd) {
  request.info.identity.tenant.models = &llamas;
  EXPECT_EQ(admit_to("llama-70b"), std::nullopt);
  request.info.inference->request.complete = false;
  EXPECT_EQ(pass(authorization), Fault::model_not_allowed);
}

TEST_F(AuthFilterTest, RefusesWhatServersReadDifferently) {
  request.info.identity.tenant.models = &llamas;
  EXPECT_EQ(admit_to("llama-70b"), std::nullopt);
  request.info.inference->request.model_disputed = true;
  EXPECT_EQ(pass(authorization), Fault::model_not_allowed) << "MODEL beside model, for Go";
}

TEST_F(AuthFilterTest, RefusesModelsOfAnApiThatIsNotKnown) {
  request.info.identity.tenant.models = &llamas;
  EXPECT_EQ(admit_to("llama-70b"), std::nullopt);
  request.method = "POST";
  request.info.inference->request.task = InferenceTask::other;
  request.path = "/collective_rpc";
  EXPECT_EQ(pass(authorization), Fault::model_not_allowed);
  request.path = "/v1/messages/count_tokens";
  EXPECT_EQ(pass(authorization), std::nullopt);
}

TEST_F(AuthFilterTest, ReadsTheModelOfATunnelInItsQuery) {
  request.info.identity.tenant.models = &llamas;
  request.method = "GET";
  request.upgrade = "websocket";
  request.path = "/v1/realtime?model=llama-7b";
  EXPECT_EQ(pass(authorization), std::nullopt);
  for (const char* path : {"/v1/realtime?model=qwen", "/v1/realtime?model=llama-7b&mod%65l=qwen"}) {
    request.path = path;
    EXPECT_EQ(pass(authorization), Fault::model_not_allowed) << path;
  }
}

TEST_F(AuthFilterTest, RefusesAModelThatCannotBeKnown) {
  request.info.identity.tenant.models = &llamas;
  EXPECT_EQ(admit_to(""), Fault::model_not_allowed);
  request.info.inference = nullptr;
  request.method = "POST";
  request.path = "/v1/chat/completions?model=llama-7b";
  EXPECT_EQ(pass(authorization), Fault::model_not_allowed) << "no such API has it in the query";
  request.body = make_body("{\"model\":\"qwen\"}");
  EXPECT_EQ(pass(authorization), Fault::model_not_allowed) << "its body was not read";
  EXPECT_EQ(admit_to("llama-7b"), Fault::model_not_allowed) << "its body was no JSON";
  request.info.inference->places.model_values = {{1, 2}};
  EXPECT_EQ(pass(authorization), std::nullopt) << "its body names the same model";
}

}  // namespace
}  // namespace evenkeel
