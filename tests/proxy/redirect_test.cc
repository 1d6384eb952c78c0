#include "proxy/redirect.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace evenkeel {
namespace {

/// Where a request is sent; "400" if it is refused.
std::string location(std::string_view match, std::string_view to, std::string_view target,
                     std::string_view host = "a.test:8080") {
  RouteConfig route{.match = {.path = std::string(match)}};
  route.redirect = RedirectConfig{.to = std::string(to)};
  Request request{.method = "GET", .authority = host, .path = target};
  const auto answer = Redirect(route).answer(request);
  if (!answer) return answer.error().fault == Fault::bad_request ? "400" : "?";
  EXPECT_EQ(answer->status, 308);
  return std::string(answer->fields.value("location").value_or("none"));
}

TEST(Redirect, LeadsToAUrlAndKeepsTheQuery) {
  EXPECT_EQ(location("/old/**", "https://b.test/", "/old/x?y=z"), "https://b.test/?y=z");
  EXPECT_EQ(location("/old", "/new", "/old"), "/new");
  EXPECT_EQ(location("/old", "/new?a=b", "/old?c=d"), "/new?a=b");
  EXPECT_EQ(location("/old", "/new?", "/old?c=d"), "/new");
}

TEST(Redirect, PutsTheRestOfThePathAtItsEnd) {
  EXPECT_EQ(location("/old/**", "https://b.test/v2/**", "/old/x/y?z"), "https://b.test/v2/x/y?z");
  EXPECT_EQ(location("/old/**", "https://b.test/**", "/old"), "https://b.test/");
  EXPECT_EQ(location("/old/**", "/new/**", "/old"), "/new");
  EXPECT_EQ(location("/old/**", "/**", "/old"), "/");
  EXPECT_EQ(location("/*/old/**", "/**", "/any/old/x"), "/x");
}

TEST(Redirect, KeepsTheClientsHost) {
  EXPECT_EQ(location("", "https://$host/**", "/x?y"), "https://a.test/x?y");
  EXPECT_EQ(location("", "https://$host:8443/**", "/", "[::1]:80"), "https://[::1]:8443/");
  EXPECT_EQ(location("", "https://$host/**", "/", ""), "400");
  EXPECT_EQ(location("", "https://$host/**", "/", "a.test/x"), "400");
}

TEST(Redirect, BeginsNoOtherHostAndNoOtherField) {
  EXPECT_EQ(location("/old/**", "/**", "/old//evil.test"), "/evil.test");
  EXPECT_EQ(location("/old/**", "/**", "/old/\\evil.test"), "/%5Cevil.test");
  EXPECT_EQ(location("/old/**", "/**", "/old/%0d%0ax"), "/%0D%0Ax");
  EXPECT_EQ(location("/old/**", "/**", "/old/a?b\r\nc"), "/a?b%0D%0Ac");
}

}  // namespace
}  // namespace evenkeel
