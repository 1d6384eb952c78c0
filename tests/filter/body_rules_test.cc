// What rules make of bodies.
#include "evenkeel/filter/body_rules.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "evenkeel/inference/request_reader.h"

namespace evenkeel {
namespace {

/// A body that was read, and what rules make of it.
class Changed {
 public:
  Changed(std::string body, const std::vector<BodyConfig>& layers, std::uint32_t limit = 0,
          std::string_view name = "max_completion_tokens", std::size_t piece = 1000)
      : body_(std::move(body)) {
    Config config;
    for (const BodyConfig& layer : layers) config.pools.push_back({.body = layer});
    if (limit > 0) config.tenants.push_back({.max_tokens = limit});
    const std::vector<std::string> members = changed_members(config);
    RequestHead head{.method = "POST", .path = "/v1/chat/completions"};
    const auto reader = RequestReader::create(head, info_.request, {}, &members);
    for (std::size_t at = 0; at < body_.size(); at += piece)
      EXPECT_TRUE(reader->read(std::string(body_, at, piece)));
    EXPECT_TRUE(reader->finish());
    info_.places = {.is_json = true,
                    .object_begin = reader->has_members() ? reader->object_begin() : std::nullopt,
                    .members = reader->take_members(),
                    .max_tokens_name = name};
    BodyChanges changes(info_, members);
    for (const BodyConfig& layer : layers) changes.apply(BodyRules(layer, members));
    if (limit > 0) changes.limit_tokens(limit);
    max_tokens = changes.max_tokens();
    changes.add_to(edits_);
    std::ranges::sort(edits_, {}, [](const BodyEdit& edit) { return edit.replaced.begin; });
  }

  std::string text() const {
    std::string out;
    std::size_t at = 0;
    for (const BodyEdit& edit : edits_) {
      out.append(body_, at, edit.replaced.begin - at).append(edit.by);
      at = edit.replaced.end;
    }
    return out.append(body_, at);
  }

  std::optional<std::uint32_t> max_tokens;

 private:
  std::string body_;
  InferenceInfo info_;
  std::vector<BodyEdit> edits_;
};

TEST(BodyRules, AddDefaultsWhereTheClientGivesNone) {
  const BodyConfig rules{.defaults = {{"temperature", "0.2"}, {"stop", R"(["a"])"}}};
  EXPECT_EQ(Changed(R"({"model":"m"})", {rules}).text(),
            R"({"stop":["a"],"temperature":0.2,"model":"m"})");
  EXPECT_EQ(Changed(R"({ "temperature" : 1, "stop" : null })", {rules}).text(),
            R"({ "temperature" : 1, "stop" : null })");
  EXPECT_EQ(Changed("{}", {rules}).text(), "{}");
}

TEST(BodyRules, ReplaceEachValueOfAMemberWhateverItIs) {
  const BodyConfig rules{.set = {{"stop", R"("x")"}}};
  for (const std::string value : {"1", "-1.5e3", "true", "null", R"("a\"b")", R"([1,{"stop":2}])",
                                  R"({"a":[{}],"stop":{}})", "[]"}) {
    const std::string body =
        R"({"a":{"stop":1}, "stop": )" + value + R"( , "s\u0074op":)" + value + "}";
    for (const std::size_t piece : {1000U, 1U, 3U}) {
      EXPECT_EQ(Changed(body, {rules}, 0, "max_tokens", piece).text(),
                R"({"a":{"stop":1}, "stop": "x" , "s\u0074op":"x"})");
    }
  }
}

TEST(BodyRules, ChangeNamesInOtherLettersToo) {
  const BodyConfig rules{.defaults = {{"seed", "1"}}, .set = {{"top_k", "3"}}};
  EXPECT_EQ(Changed(R"({"Top_K":9,"SEED":2})", {rules}).text(),
            R"({"seed":1,"top_k":3,"Top_K":3,"SEED":1})");
}

TEST(BodyRules, TakeTheNamesOfTheMostTokensForOne) {
  const BodyConfig rules{.defaults = {{"max_tokens", "100"}}};
  for (const std::string name : {"max_tokens", "max_completion_tokens"}) {
    const Changed given("{\"" + name + "\":7}", {rules});
    EXPECT_EQ(given.text(), "{\"" + name + "\":7}");
    EXPECT_EQ(given.max_tokens, 7u);
  }
  const Changed added(R"({"a":1})", {rules});
  EXPECT_EQ(added.text(), R"({"max_tokens":100,"a":1})");
  EXPECT_EQ(added.max_tokens, 100u);
  EXPECT_EQ(Changed(R"({"a":1})", {rules}, 0, "max_output_tokens").text(),
            R"({"max_output_tokens":100,"a":1})");
  EXPECT_EQ(Changed(R"({"a":1})", {{.set = {{"max_completion_tokens", "9"}}}}).text(),
            R"({"max_completion_tokens":9,"a":1})");
}

TEST(BodyRules, LowerTheMostTokens) {
  const BodyConfig rules{.max_tokens = 50};
  EXPECT_EQ(Changed(R"({"max_tokens":50})", {rules}).text(), R"({"max_tokens":50})");
  EXPECT_EQ(Changed(R"({"max_tokens":51})", {rules}).text(), R"({"max_tokens":50})");
  EXPECT_EQ(Changed(R"({"a":1})", {rules}).text(), R"({"max_tokens":50,"a":1})");
  EXPECT_EQ(Changed(R"({"max_tokens":"many"})", {rules}).text(), R"({"max_tokens":50})");
  EXPECT_EQ(Changed(R"({"max_tokens":99,"max_completion_tokens":9})", {rules}).text(),
            R"({"max_tokens":50,"max_completion_tokens":50})");
  EXPECT_EQ(Changed(R"({"max_tokens":1e9})", {rules}).text(), R"({"max_tokens":50})");
  EXPECT_EQ(Changed(R"({"max_tokens":"9"})", {rules}).text(), R"({"max_tokens":50})");
  // What another API calls so does not count; llama.cpp's name for it does beside the API's.
  EXPECT_EQ(Changed(R"({"max_output_tokens":2})", {rules}).text(),
            R"({"max_tokens":50,"max_output_tokens":2})");
  EXPECT_EQ(Changed(R"({"n_predict":99})", {rules}).text(), R"({"max_tokens":50,"n_predict":50})");
  EXPECT_EQ(Changed(R"({"n_predict":7})", {rules}).text(), R"({"max_tokens":50,"n_predict":7})");
  EXPECT_EQ(Changed(R"({"max_tokens":9,"n_predict":-1})", {rules}).text(),
            R"({"max_tokens":9,"n_predict":50})");
  // Servers in Go take names in other letters.
  EXPECT_EQ(Changed(R"({"MAX_TOKENS":5})", {rules}).text(), R"({"max_tokens":50,"MAX_TOKENS":5})");
  EXPECT_EQ(Changed(R"({"max_tokens":5,"Max_to\u212aens":99})", {rules}).text(),
            R"({"max_tokens":5,"Max_to\u212aens":50})");
  EXPECT_EQ(Changed(R"({"max_tokens":5})", {rules}, 0, "max_output_tokens").text(),
            R"({"max_output_tokens":50,"max_tokens":5})");
}

TEST(BodyRules, FollowEachOther) {
  const BodyConfig route{.defaults = {{"seed", "1"}, {"max_tokens", "80"}}};
  const BodyConfig pool{.defaults = {{"seed", "2"}}, .set = {{"top_k", "3"}}, .max_tokens = 60};
  const Changed changed(R"({"top_k":9})", {route, pool}, 40);
  EXPECT_EQ(changed.text(), R"({"seed":1,"max_tokens":40,"top_k":3})");
  EXPECT_EQ(changed.max_tokens, 40u);
}

TEST(BodyRules, ChangeTheSaltOfCachedPrefixesOnlyWhereATenantHasOne) {
  const auto names = [](std::string salt) {
    Config config;
    config.tenants = {{.name = "acme", .max_tokens = 5, .cache_salt = std::move(salt)}};
    return changed_members(config);
  };
  EXPECT_EQ(std::ranges::count(names({}), "cache_salt"), 0);
  EXPECT_EQ(std::ranges::count(names("of acme"), "cache_salt"), 1);
}

}  // namespace
}  // namespace evenkeel
