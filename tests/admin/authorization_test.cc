#include "admin/authorization.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <fstream>
#include <string>

namespace evenkeel {
namespace {

using testing::HasSubstr;

AdminRequest reload_from(std::string client) {
  return {.method = "POST",
          .target = "/api/v1/reload",
          .host = "127.0.0.1:9901",
          .client = std::move(client)};
}

AdminRequest with_field(std::string_view name, std::string_view value) {
  AdminRequest request = reload_from("127.0.0.1");
  request.fields.emplace_back(name, value);
  return request;
}

bool is_allowed(const AdminRequest& request) {
  return !check_origin(request, {}) && !authorize_change(request, AdminConfig{});
}

/// A token's file, removed with this object.
struct TokenFile {
  explicit TokenFile(std::string_view text) {
    char name[] = "/tmp/evenkeel-token-XXXXXX";
    close(mkstemp(name));
    path = name;
    write(text);
  }
  ~TokenFile() { unlink(path.c_str()); }
  void write(std::string_view text) const { std::ofstream(path) << text; }
  std::string path;
};

TEST(Authorization, RefusesChangesFromPagesOfOtherSites) {
  AdminRequest rebound = reload_from("127.0.0.1");
  rebound.host = "evil.example:9901";
  EXPECT_FALSE(is_allowed(rebound));
  EXPECT_FALSE(is_allowed(with_field("origin", "https://evil.example")));
  EXPECT_FALSE(is_allowed(with_field("origin", "null")));
  // Neither an address nor being on this machine makes an origin ours.
  EXPECT_FALSE(is_allowed(with_field("origin", "http://203.0.113.5")));
  EXPECT_FALSE(is_allowed(with_field("origin", "http://127.0.0.1:3000")));
  EXPECT_FALSE(is_allowed(with_field("referer", "https://evil.example/form")));
  EXPECT_FALSE(is_allowed(with_field("sec-fetch-site", "cross-site")));
  EXPECT_FALSE(is_allowed(with_field("sec-fetch-site", "same-site")));
}

TEST(Authorization, ComparesHostsHoweverTheyAreWritten) {
  const auto allowed = [](std::string_view host, std::string_view origin) {
    AdminRequest request = reload_from("::ffff:127.0.0.1");
    request.host = host;
    if (!origin.empty()) request.fields.emplace_back("origin", origin);
    return !check_origin(request, {"lb.example"}) && !authorize_change(request, AdminConfig{});
  };
  EXPECT_TRUE(allowed("localhost.:9901", ""));
  EXPECT_TRUE(allowed("LB.example.", "http://lb.example"));
  EXPECT_TRUE(allowed("lb.example:80", "http://lb.example"));
  EXPECT_TRUE(allowed("lb.example", "https://lb.example:443"));
  EXPECT_TRUE(allowed("[0:0::1]:9901", "http://[::1]:9901"));
  EXPECT_TRUE(allowed("[::ffff:127.0.0.1]", "http://127.0.0.1"));
  EXPECT_FALSE(allowed("lb.example:80", "http://lb.example:81"));
  EXPECT_FALSE(allowed("[evil.example]", ""));
  AdminRequest mapped = reload_from("::FFFF:7f00:1");
  EXPECT_TRUE(is_allowed(mapped));
  EXPECT_TRUE(is_known_host("lb.example", {"LB.Example."}, true));
}

TEST(Authorization, AllowsChangesFromOurOwnPages) {
  AdminRequest request = with_field("origin", "http://127.0.0.1:9901");
  request.fields.emplace_back("sec-fetch-site", "same-origin");
  request.fields.emplace_back("referer", "http://127.0.0.1:9901/ui/");
  EXPECT_TRUE(is_allowed(request));
}

TEST(Authorization, RemoteChangesNeedAToken) {
  for (const char* local : {"127.0.0.1", "127.1.2.3", "::1", "::ffff:127.0.0.1"}) {
    EXPECT_TRUE(is_allowed(reload_from(local))) << local;
  }
  for (const char* remote : {"10.0.0.1", "2001:db8::1", "::ffff:10.0.0.1", ""}) {
    const auto refusal = authorize_change(reload_from(remote), AdminConfig{});
    ASSERT_TRUE(refusal) << remote;
    EXPECT_EQ(refusal->status, 403);
    EXPECT_THAT(refusal->message, HasSubstr("admin.token_file"));
  }
}

TEST(Authorization, RemoteChangesWithTheTokenAreAllowed) {
  const TokenFile file("correct-horse-battery\n");
  const auto status_with = [&](std::string_view credentials) {
    AdminRequest request = reload_from("10.0.0.1");
    if (!credentials.empty()) request.fields.emplace_back("Authorization", credentials);
    const auto refusal = authorize_change(request, {.token_file = file.path});
    return refusal ? refusal->status : 200;
  };
  EXPECT_EQ(status_with(""), 401);
  EXPECT_EQ(status_with("Bearer correct-horse-batterz"), 403);
  EXPECT_EQ(status_with("Bearer correct-horse"), 403);
  EXPECT_EQ(status_with("Basic correct-horse-battery"), 401);
  EXPECT_EQ(status_with("Bearer correct-horse-battery"), 200);
  EXPECT_EQ(status_with("bearer  correct-horse-battery"), 200);

  file.write("another-horse-battery");
  EXPECT_EQ(status_with("Bearer correct-horse-battery"), 403) << "the file is read each time";
  EXPECT_EQ(status_with("Bearer another-horse-battery"), 200);
}

TEST(Authorization, TheTokenMayBeWantedFromThisMachineToo) {
  const TokenFile file("correct-horse-battery\n");
  AdminConfig admin{.token_file = file.path, .token_for = TokenFor::changes};
  const AdminRequest without = reload_from("127.0.0.1");
  AdminRequest with = reload_from("127.0.0.1");
  with.fields.emplace_back("authorization", "Bearer correct-horse-battery");

  ASSERT_TRUE(authorize_change(without, admin));
  EXPECT_EQ(authorize_change(without, admin)->status, 401);
  EXPECT_FALSE(authorize_change(with, admin));
  EXPECT_FALSE(authorize_read(without, admin));

  admin.token_for = TokenFor::all;
  ASSERT_TRUE(authorize_read(without, admin));
  EXPECT_EQ(authorize_read(without, admin)->status, 401);
  EXPECT_FALSE(authorize_read(with, admin));
}

TEST(Authorization, EmptyOrMissingTokenFileRefusesChanges) {
  const TokenFile file("\n");
  for (const std::string& path : {file.path, file.path + ".gone"}) {
    for (const std::string_view credentials : {"Bearer ", "Bearer x", "Bearer"}) {
      AdminRequest request = reload_from("10.0.0.1");
      request.fields.emplace_back("authorization", credentials);
      EXPECT_TRUE(authorize_change(request, {.token_file = path}));
    }
  }
}

TEST(Authorization, HostPatternsMatchWholeNames) {
  EXPECT_TRUE(is_known_host("lb.example:9901", {"lb.example"}, true));
  EXPECT_TRUE(is_known_host("a.b.example", {"*.example"}, true));
  EXPECT_TRUE(is_known_host("a-x-b", {"a*x*b"}, true));
  EXPECT_FALSE(is_known_host("a-x-c", {"a*x*b"}, true));
  EXPECT_FALSE(is_known_host("example", {"*.example"}, true));
  EXPECT_FALSE(is_known_host("lb.example", {"*.example"}, false));
  EXPECT_FALSE(is_known_host("lb.example", {}, true));
  EXPECT_FALSE(is_known_host(std::string(10'000, 'a'), {"*a*a*a*a*a*b"}, true));
}

}  // namespace
}  // namespace evenkeel
