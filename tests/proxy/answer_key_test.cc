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

/// Three bytes and trailers.
class WithTrailers final : public Body {
 public:
  Task<Result<Chunk>> read() override {
    if (std::exchange(is_read_, true))
      return Result<Chunk>(Chunk{.last = true, .trailers = &trailers_});
    return Result<Chunk>(Chunk{.bytes = "abc"});
  }
  bool rewind() override {
    is_read_ = false;
    return true;
  }
  bool rewindable() const override { return true; }

 private:
  bool is_read_ = false;
  const Fields trailers_;
};

class AnswerKeysTest : public testing::Test {
 protected:
  Request request(const std::string& body = R"({"model":"m"})") const {
    Request request{.method = "POST", .authority = "a.example", .path = "/v1/chat/completions"};
    request.body = make_body(body);
    request.info.inference = std::make_unique<InferenceInfo>();
    request.info.inference->request.task = InferenceTask::chat;
    request.info.inference->request.model = "m";
    request.info.inference->request.complete = true;
    return request;
  }
  AnswerKey key(Request request) const {
    EXPECT_TRUE(is_repeatable(request));
    return keys_.key_of(request, none_).value_or(AnswerKey());
  }
  /// The key of the request in another version of the pool.
  AnswerKey key_in(const PoolConfig& pool, const std::vector<std::string>& subsets = {},
                   std::uint32_t subset = 0) const {
    Request asked = request();
    asked.info.identity.subset = subset;
    return AnswerKeys(pool, subsets, {1, 2}).key_of(asked, none_).value_or(AnswerKey());
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

  const BodyConfig none_;
  PoolConfig pool_{.name = "pool"};
  AnswerKeys keys_{pool_, {"version=v1"}, {1, 2}};
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

TEST_F(AnswerKeysTest, TellTextsFromTheirNeighboursHoweverLong) {
  const auto key_with = [&](const std::string& tenant, const std::string& certificate) {
    Request asked = request();
    asked.info.identity.tenant.name = tenant;
    asked.info.identity.certificate_hash = certificate;
    return key(std::move(asked));
  };
  EXPECT_NE(key_with("ab", ""), key_with("a", "b"));
  for (const std::size_t size : {900u, 1016u, 1024u, 1025u, 5000u}) {
    const std::string text(size, 'x');
    EXPECT_EQ(key_with(text, "c"), key_with(text, "c")) << size;
    EXPECT_NE(key_with(text + "c", ""), key_with(text, "c")) << size;
    EXPECT_NE(key_with(text, "c"), key_with(text, "d")) << size;
  }
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
}

TEST_F(AnswerKeysTest, TellWhatTheFileMakesOfTheRequest) {
  EXPECT_EQ(key_in(pool_), key(request()));
  PoolConfig renamed = pool_;
  renamed.model = "other";
  EXPECT_NE(key_in(renamed), key(request()));
  PoolConfig renaming = pool_;
  renaming.model_names = {{"m", "one"}};
  const AnswerKey one = key_in(renaming);
  EXPECT_NE(one, key(request()));
  renaming.model_names["m"] = "two";
  EXPECT_NE(key_in(renaming), one);
  PoolConfig changing = pool_;
  changing.body.set = {{"top_p", "1"}};
  EXPECT_NE(key_in(changing), key(request()));
  Request same = request();
  const BodyConfig of_route{.max_tokens = 7};
  EXPECT_NE(keys_.key_of(same, of_route), key(request()));
  EXPECT_TRUE(tells([](Request& changed) { changed.info.identity.tenant.max_tokens = 7; }));
}

TEST_F(AnswerKeysTest, TellSubsetsByTheirLabels) {
  EXPECT_EQ(key_in(pool_, {"version=v1"}, 1), key_in(pool_, {"a=b", "version=v1"}, 2));
  EXPECT_NE(key_in(pool_, {"version=v1"}, 1), key_in(pool_, {"version=v2"}, 1));
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
  ASSERT_TRUE(keys_.key_of(asked, none_));
  EXPECT_EQ(read_whole(*asked.body), "abc");
  EXPECT_EQ(asked.body->read().take()->bytes, "abc");
}

TEST_F(AnswerKeysTest, LeaveABodyWithTrailersAtItsStartToo) {
  Request asked = request();
  asked.body = std::make_unique<WithTrailers>();
  EXPECT_EQ(keys_.key_of(asked, none_), std::nullopt);
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
  for (const char* const path : {"/v1/responses?a", "/x/v1/responses", "/v1/%72esponses",
                                 "/v1//responses", "/v1%2Fresponses", "/v1/%zz"})
    EXPECT_FALSE(is_repeatable_with([&](Request& changed) { changed.path = path; })) << path;
  EXPECT_FALSE(is_repeatable_with([](Request& changed) { changed.info.outcome.grpc_status = 0; }));
  EXPECT_FALSE(is_repeatable_with([&](Request& changed) { asked(changed).complete = false; }));
  EXPECT_FALSE(
      is_repeatable_with([&](Request& changed) { asked(changed).previous_response = "resp_1"; }));
  EXPECT_FALSE(is_repeatable_with([&](Request& changed) {
    asked(changed).task = InferenceTask::infer;
    asked(changed).session = "7";
  }));
}

InferenceInfo asking(InferenceRequest asked) {
  InferenceInfo info;
  info.request = std::move(asked);
  info.places.max_tokens_name = "max_tokens";
  return info;
}

TEST(ReuseRules, GoByTheKindOfRequest) {
  PoolConfig pool{.coalesce = CoalesceRule::deterministic, .cache = CacheConfig()};
  const ReuseRules rules(pool);
  const BodyConfig none;
  const InferenceInfo embedding = asking({.task = InferenceTask::embedding});
  const InferenceInfo greedy = asking({.task = InferenceTask::chat, .zero_temperature = true});
  const InferenceInfo several =
      asking({.task = InferenceTask::chat, .choices = 2, .zero_temperature = true});
  const InferenceInfo seeded =
      asking({.task = InferenceTask::completion, .choices = 2, .has_seed = true});
  const InferenceInfo free = asking({.task = InferenceTask::chat});
  for (const InferenceInfo* const asked : {&embedding, &greedy, &seeded}) {
    EXPECT_TRUE(rules.may_keep(*asked, none));
    EXPECT_TRUE(rules.may_coalesce(*asked, none));
  }
  for (const InferenceInfo* const asked : {&several, &free}) {
    EXPECT_FALSE(rules.may_keep(*asked, none));
    EXPECT_FALSE(rules.may_coalesce(*asked, none));
  }
  pool.coalesce = CoalesceRule::all;
  pool.cache->requests = {CachedRequests::embeddings};
  const ReuseRules others(pool);
  EXPECT_TRUE(others.may_coalesce(free, none));
  EXPECT_TRUE(others.may_keep(embedding, none));
  EXPECT_FALSE(others.may_keep(greedy, none));
}

TEST(ReuseRules, GoByWhatTheFileMakesOfTheRequest) {
  const InferenceInfo greedy = asking({.task = InferenceTask::chat, .zero_temperature = true});
  const InferenceInfo seeded = asking({.task = InferenceTask::chat, .has_seed = true});
  const InferenceInfo free = asking({.task = InferenceTask::chat});
  const auto keeps = [](const InferenceInfo& info, const BodyConfig& of_pool,
                        const BodyConfig& of_route = {}) {
    const PoolConfig pool{.body = of_pool, .cache = CacheConfig()};
    return ReuseRules(pool).may_keep(info, of_route);
  };
  const BodyConfig warm{.set = {{"temperature", "0.7"}}};
  const BodyConfig cold{.set = {{"temperature", "0"}}};
  EXPECT_FALSE(keeps(greedy, warm));
  EXPECT_FALSE(keeps(greedy, {}, warm));
  EXPECT_TRUE(keeps(greedy, cold, warm)) << "the pool has the last word";
  EXPECT_TRUE(keeps(seeded, warm));
  EXPECT_TRUE(keeps(free, cold));
  EXPECT_FALSE(keeps(seeded, {.set = {{"seed", "null"}}}));
  EXPECT_TRUE(keeps(free, {.set = {{"seed", "7"}}}));
  EXPECT_FALSE(keeps(greedy, {.set = {{"n", "2"}}}));
  EXPECT_FALSE(keeps(greedy, {.defaults = {{"n", "2"}}}));
  EXPECT_TRUE(keeps(greedy, {.defaults = {{"temperature", "0.7"}}}));
  InferenceInfo unchanged = asking({.task = InferenceTask::chat});
  unchanged.places.max_tokens_name = {};
  EXPECT_FALSE(keeps(unchanged, cold)) << "nothing is set in the bodies of other APIs";
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
  EXPECT_EQ(lifetime_with("cache-control", "max-age=\"60\""), 60s);
  EXPECT_EQ(lifetime_with("cache-control", "max-age=99999999999"), 1h);
  EXPECT_EQ(lifetime_with("cache-control", "max-age=60, max-age=20"), 20s);
  EXPECT_EQ(lifetime_with("vary", "Accept-Encoding, origin"), 1h);
}

TEST(LifetimeOfAnAnswer, IsShorterByItsAge) {
  const auto lifetime = whole_lifetime_with({{"cache-control", "max-age=60"}, {"age", "50"}});
  ASSERT_TRUE(lifetime);
  EXPECT_EQ(lifetime->fresh, 10s);
  EXPECT_EQ(lifetime->age, 50s);
  EXPECT_FALSE(whole_lifetime_with({{"cache-control", "max-age=60"}, {"age", "60"}}));
  EXPECT_FALSE(whole_lifetime_with({{"cache-control", "max-age=60"}, {"age", "99999999999"}}));
}

TEST(LifetimeOfAnAnswer, IsNotExtendedWhereItMustBeAskedFor) {
  EXPECT_EQ(whole_lifetime_with({{"cache-control", "max-age=60"}})->stale, 2h);
  for (const char* const value : {"must-revalidate", "proxy-revalidate, max-age=60", "s-maxage=60"})
    EXPECT_EQ(whole_lifetime_with({{"cache-control", value}})->stale, 0s) << value;
}

TEST(LifetimeOfAnAnswer, IsNothingForOneThatMayNotBeKept) {
  EXPECT_EQ(lifetime_with("content-type", "application/json", 201), std::nullopt);
  for (const char* const value :
       {"no-store", "Private", "private=\"x\"", "max-age=0", "max-age=\"0\"", "max-age=-1",
        "max-age=later", "max-age", "no-cache"})
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
