#include "evenkeel/filter/cors.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace evenkeel {
namespace {

/// What a response says to pages after the rules have been applied.
std::string said(const CorsConfig& config, const CorsRequest& asked) {
  Response response;
  response.fields.add("Access-Control-Allow-Origin", "https://backend.test");
  const CorsRules rules(config);  // the fields view it
  rules.apply(asked, response);
  std::string text;
  for (const Field& field : response.fields)
    text.append(field.name()).append(": ").append(field.value()).append("\n");
  return text;
}

TEST(CorsRules, ReplaceWhatBackendsSay) {
  EXPECT_EQ(said({.origins = {"*"}}, {}), "");
  EXPECT_EQ(said({.origins = {"*"}}, {.origin = "https://a.test"}),
            "access-control-allow-origin: *\naccess-control-expose-headers: *\n");
}

TEST(CorsRules, NameTheOriginThatTheFileHas) {
  const CorsConfig config{.origins = {"https://a.test", "https://*.b.test"}};
  EXPECT_EQ(said(config, {.origin = "https://x.b.test"}),
            "vary: origin\naccess-control-allow-origin: https://x.b.test\n"
            "access-control-expose-headers: *\n");
  for (const std::string_view origin :
       {"", "null", "https://b.test", "https://evil.test/.b.test", "https://a.test.evil.test"}) {
    EXPECT_EQ(said(config, {.origin = origin}), "vary: origin\n") << origin;
  }
}

TEST(CorsRules, AnswerPreflights) {
  const CorsRequest asked{.origin = "https://a.test", .method = "PUT", .headers = "x-a"};
  EXPECT_EQ(said({.origins = {"*"}}, asked),
            "access-control-allow-origin: *\naccess-control-allow-methods: PUT\n"
            "access-control-allow-headers: x-a\naccess-control-max-age: 600\n");
  EXPECT_EQ(said({.origins = {"https://a.test"},
                  .methods = {"GET", "POST"},
                  .headers = {"x-b"},
                  .credentials = true,
                  .max_age = {}},
                 asked),
            "vary: origin\naccess-control-allow-origin: https://a.test\n"
            "access-control-allow-credentials: true\naccess-control-allow-methods: GET, POST\n"
            "access-control-allow-headers: x-b\n");
}

}  // namespace
}  // namespace evenkeel
