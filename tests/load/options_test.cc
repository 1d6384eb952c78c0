#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "evenkeel/load/load.h"
#include "evenkeel/load/run.h"
#include "evenkeel/load/target.h"

namespace evenkeel {
namespace {

using testing::HasSubstr;
using Header = std::pair<std::string, std::string>;

TEST(TokenRange, IsANumberOrTwo) {
  EXPECT_EQ(*parse_token_range("128"), (TokenRange{128, 128}));
  EXPECT_EQ(*parse_token_range("16..512"), (TokenRange{16, 512}));
  EXPECT_EQ(*parse_token_range("7..7"), (TokenRange{7, 7}));
}

TEST(TokenRange, IsRefusedWithTheExpectedForm) {
  for (const char* wrong : {"", "0", "-1", "x", "1.5", "5..", "..5", "9..3", "1..2..3", "10000001",
                            "1 ..2", "99999999999999999999"}) {
    auto range = parse_token_range(wrong);
    ASSERT_FALSE(range) << wrong;
    EXPECT_THAT(range.error().detail, HasSubstr("or a range A..B")) << wrong;
  }
}

TEST(HeaderOption, IsANameAndAValue) {
  EXPECT_EQ(*parse_header_option("X-Tenant: acme"), Header("X-Tenant", "acme"));
  EXPECT_EQ(*parse_header_option("a:b: c \t"), Header("a", "b: c"));
  EXPECT_EQ(*parse_header_option("a:"), Header("a", ""));
}

TEST(HeaderOption, IsRefusedWhereItCouldSplitTheRequest) {
  for (const char* wrong : {"", ":x", "a", "a b: c", "a: b\r\nc: d", "a\n: b", "\xc3\xa4: x"}) {
    EXPECT_FALSE(parse_header_option(wrong)) << wrong;
  }
}

TEST(LoadTarget, FindsThePathsBelowTheBase) {
  for (const char* url :
       {"http://127.0.0.1:8000", "127.0.0.1:8000", "http://127.0.0.1:8000/",
        "http://127.0.0.1:8000/v1", "http://127.0.0.1:8000/v1/chat/completions"}) {
    auto target = resolve_target(url);
    ASSERT_TRUE(target) << url;
    EXPECT_EQ(target->authority, "127.0.0.1:8000") << url;
    EXPECT_EQ(target->completions_path, "/v1/chat/completions") << url;
    EXPECT_EQ(target->models_path, "/v1/models") << url;
    EXPECT_EQ(target->endpoints.at(0).text(), "127.0.0.1:8000") << url;
  }
  EXPECT_EQ(resolve_target("http://127.0.0.1/llama/v1/")->completions_path,
            "/llama/v1/chat/completions");
}

TEST(LoadTarget, IsRefusedWithAReason) {
  EXPECT_THAT(resolve_target("https://127.0.0.1").error().detail, HasSubstr("expected http://"));
  EXPECT_FALSE(resolve_target("http://"));
  EXPECT_FALSE(resolve_target("http://127.0.0.1:99999"));
  EXPECT_FALSE(resolve_target("http://127.0.0.1:80/v1?x=y"));
}

TEST(LoadOptions, HaveSensibleDefaults) {
  auto options = resolve_options({.url = "x"});

  ASSERT_TRUE(options);
  EXPECT_EQ(options->concurrency, 8u);
  EXPECT_EQ(options->duration, std::chrono::seconds(10));
}

TEST(LoadOptions, ThatContradictEachOtherAreRefused) {
  EXPECT_FALSE(resolve_options({.rate = 1, .concurrency = 1}));
  EXPECT_FALSE(resolve_options({.rate = 1, .trace = "x"}));
  EXPECT_FALSE(resolve_options({.concurrency = 1, .poisson = true}));
  EXPECT_FALSE(resolve_options({.ttft_slo = std::chrono::seconds(1)}));  // needs streams
  EXPECT_FALSE(resolve_options({.rate = -1}));
  EXPECT_FALSE(resolve_options({.trace = "x", .trace_speed = 0}));
  EXPECT_FALSE(resolve_options({.threads = 0}));
}

}  // namespace
}  // namespace evenkeel
