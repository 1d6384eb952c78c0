#include "proxy/answer_key.h"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace evenkeel {
namespace {

using namespace std::chrono_literals;

class AnswerKeysTest : public testing::Test {
 protected:
  Request request(const std::string& body = R"({"model":"m"})") const {
    Request request{.method = "POST", .authority = "a.example", .path = "/v1/chat/completions"};
    request.body = make_body(body);
    request.info.inference = std::make_unique<InferenceInfo>();
    request.info.inference->request.task = InferenceTask::chat;
    request.info.inference->request.complete = true;
    return request;
  }
  AnswerKey key(Request request) const {
    EXPECT_TRUE(is_repeatable(request));
    return keys_.key_of(request).value_or(AnswerKey());
  }
  /// True if the change makes it another request.
  bool tells(const std::function<void(Request&)>& change) const {
    Request changed = request();
    change(changed);
    return !(key(std::move(changed)) == key(request()));
  }
  bool tells_field(std::string_view name, std::string_view value) const {
    return tells([&](Request& changed) { changed.fields.add(name, value); });
  }

  PoolConfig pool_{.name = "pool"};
  AnswerKeys keys_{pool_, {1, 2}};
  ApiKey api_key_{.id = "12345678"};
};

TEST_F(AnswerKeysTest, AreTheSameForTheSameRequest) {
  EXPECT_EQ(key(request()), key(request()));
  EXPECT_FALSE(tells_field("user-agent", "curl"));
  EXPECT_FALSE(tells_field("x-request-id", "r-1"));
  EXPECT_FALSE(tells_field("traceparent", "00-1-2-01"));
}

TEST_F(AnswerKeysTest, TellTenantsAndCredentials) {
  EXPECT_TRUE(tells([](Request& changed) { changed.info.identity.tenant.name = "acme"; }));
  EXPECT_TRUE(tells([](Request& changed) { changed.info.identity.tenant.number = 1; }));
  EXPECT_TRUE(tells([&](Request& changed) { changed.info.identity.tenant.key = &api_key_; }));
  EXPECT_TRUE(tells([](Request& changed) { changed.info.identity.certificate_hash = "ab"; }));
  for (const char* const name : {"authorization", "cookie", "x-api-key", "api-key", "X_API_KEY"})
    EXPECT_TRUE(tells_field(name, "secret")) << name;
}

TEST_F(AnswerKeysTest, TellWhatTheAnswerDependsOn) {
  EXPECT_NE(key(request()), key(request(R"({"model":"n"})")));
  EXPECT_TRUE(tells([](Request& changed) { changed.path = "/v1/chat/completions?a=b"; }));
  EXPECT_TRUE(tells([](Request& changed) { changed.authority = "b.example"; }));
  EXPECT_TRUE(tells([](Request& changed) { changed.info.identity.route = "other"; }));
  EXPECT_TRUE(tells([](Request& changed) { changed.info.identity.subset = 1; }));
  for (const char* const name : {"accept", "accept-encoding", "content-type", "content-encoding",
                                 "anthropic-version", "openai-beta"})
    EXPECT_TRUE(tells_field(name, "x")) << name;
  PoolConfig renamed = pool_;
  renamed.model = "other";
  Request same = request();
  EXPECT_NE(AnswerKeys(renamed, {1, 2}).key_of(same), key(request()));
}

TEST_F(AnswerKeysTest, TellWhereOneFieldEndsAndTheNextBegins) {
  Request one = request();
  one.fields.add("accept", "ab");
  Request other = request();
  other.fields.add("accept", "a");
  other.fields.add("accept", "b");
  EXPECT_NE(key(std::move(one)), key(std::move(other)));
}

TEST_F(AnswerKeysTest, LeaveTheBodyAtItsStart) {
  Request asked = request("abc");
  ASSERT_TRUE(keys_.key_of(asked));
  EXPECT_EQ(read_whole(*asked.body), "abc");
  EXPECT_EQ(asked.body->read().take()->bytes, "abc");
}

TEST_F(AnswerKeysTest, AreOfRequestsThatAnswersCanBeRepeatedFor) {
  const auto is_repeatable_with = [&](const std::function<void(Request&)>& change) {
    Request changed = request();
    change(changed);
    return is_repeatable(changed);
  };
  const auto asked = [](Request& changed) -> InferenceRequest& {
    return changed.info.inference->request;
  };
  EXPECT_TRUE(is_repeatable_with([](Request&) {}));
  EXPECT_FALSE(is_repeatable_with([](Request& changed) { changed.method = "PUT"; }));
  EXPECT_FALSE(is_repeatable_with([](Request& changed) { changed.info.inference.reset(); }));
  EXPECT_FALSE(is_repeatable_with([](Request& changed) { changed.path = "/v1/responses?a"; }));
  EXPECT_FALSE(is_repeatable_with([](Request& changed) { changed.info.outcome.grpc_status = 0; }));
  EXPECT_FALSE(is_repeatable_with([&](Request& changed) { asked(changed).complete = false; }));
  EXPECT_FALSE(
      is_repeatable_with([&](Request& changed) { asked(changed).previous_response = "resp_1"; }));
  EXPECT_FALSE(is_repeatable_with([&](Request& changed) {
    asked(changed).task = InferenceTask::infer;
    asked(changed).session = "7";
  }));
}

TEST(ReuseRules, GoByTheKindOfRequest) {
  PoolConfig pool{.coalesce = CoalesceRule::deterministic, .cache = CacheConfig()};
  const ReuseRules rules(pool);
  const InferenceRequest embedding{.task = InferenceTask::embedding};
  const InferenceRequest greedy{.task = InferenceTask::chat, .zero_temperature = true};
  const InferenceRequest several{
      .task = InferenceTask::chat, .choices = 2, .zero_temperature = true};
  const InferenceRequest seeded{.task = InferenceTask::completion, .choices = 2, .has_seed = true};
  const InferenceRequest free{.task = InferenceTask::chat};
  for (const InferenceRequest* const asked : {&embedding, &greedy, &seeded}) {
    EXPECT_TRUE(rules.may_keep(*asked));
    EXPECT_TRUE(rules.may_coalesce(*asked));
  }
  for (const InferenceRequest* const asked : {&several, &free}) {
    EXPECT_FALSE(rules.may_keep(*asked));
    EXPECT_FALSE(rules.may_coalesce(*asked));
  }
  pool.coalesce = CoalesceRule::all;
  pool.cache->requests = {CachedRequests::embeddings};
  const ReuseRules others(pool);
  EXPECT_TRUE(others.may_coalesce(free));
  EXPECT_TRUE(others.may_keep(embedding));
  EXPECT_FALSE(others.may_keep(greedy));
}

using Named = std::vector<std::pair<std::string_view, std::string_view>>;

std::optional<Lifetime> whole_lifetime_with(const Named& fields, int status = 200) {
  Response response{.status = status};
  for (const auto& [name, value] : fields) response.fields.add(name, value);
  response.body = make_body("{}");
  return lifetime_of(response, {.ttl = 1h, .stale_if_error = 2h});
}

std::optional<Duration> lifetime_with(std::string_view name, std::string_view value,
                                      int status = 200) {
  const auto lifetime = whole_lifetime_with({{name, value}}, status);
  return lifetime ? std::optional(lifetime->fresh) : std::nullopt;
}

TEST(LifetimeOfAnAnswer, IsTheTtlUnlessItSaysLess) {
  EXPECT_EQ(lifetime_with("content-type", "application/json"), 1h);
  EXPECT_EQ(lifetime_with("cache-control", "public, max-age=60"), 60s);
  EXPECT_EQ(lifetime_with("cache-control", "max-age=60, s-maxage=30"), 30s);
  EXPECT_EQ(lifetime_with("cache-control", "max-age=86400"), 1h);
  EXPECT_EQ(lifetime_with("cache-control", "max-age=later"), 1h);
  EXPECT_EQ(lifetime_with("vary", "Accept-Encoding, origin"), 1h);
}

TEST(LifetimeOfAnAnswer, IsShorterByItsAge) {
  const auto lifetime = whole_lifetime_with({{"cache-control", "max-age=60"}, {"age", "50"}});
  ASSERT_TRUE(lifetime);
  EXPECT_EQ(lifetime->fresh, 10s);
  EXPECT_EQ(lifetime->age, 50s);
  EXPECT_FALSE(whole_lifetime_with({{"cache-control", "max-age=60"}, {"age", "60"}}));
}

TEST(LifetimeOfAnAnswer, IsNotExtendedWhereItMustBeAskedFor) {
  EXPECT_EQ(whole_lifetime_with({{"cache-control", "max-age=60"}})->stale, 2h);
  for (const char* const value : {"must-revalidate", "proxy-revalidate, max-age=60", "s-maxage=60"})
    EXPECT_EQ(whole_lifetime_with({{"cache-control", value}})->stale, 0s) << value;
}

TEST(LifetimeOfAnAnswer, IsNothingForOneThatMayNotBeKept) {
  EXPECT_EQ(lifetime_with("content-type", "application/json", 201), std::nullopt);
  for (const char* const value : {"no-store", "Private", "private=\"x\"", "max-age=0", "no-cache"})
    EXPECT_EQ(lifetime_with("cache-control", value), std::nullopt) << value;
  EXPECT_EQ(lifetime_with("set-cookie", "a=b"), std::nullopt);
  EXPECT_EQ(lifetime_with("vary", "user-agent"), std::nullopt);
  EXPECT_EQ(lifetime_with("vary", "*"), std::nullopt);
}

TEST(LifetimeOfAnAnswer, IsThatOfOthersForAStreamThatIsNotToBeCached) {
  const Named fields{{"content-type", "text/event-stream"}, {"cache-control", "no-cache"}};
  EXPECT_TRUE(whole_lifetime_with(fields));
}

}  // namespace
}  // namespace evenkeel
