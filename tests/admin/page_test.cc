// The live page at /ui/: its files, and what they are allowed.
#include "admin/page.h"

#include <unistd.h>

#include <fstream>
#include <regex>
#include <set>

#include "admin/gzip.h"
#include "admin/running_admin.h"

namespace evenkeel::testing {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class Page : public RunningAdmin {};

TEST_F(Page, IsServedWithWhatProtectsIt) {
  start();

  RawReply reply = get("/ui/");

  EXPECT_EQ(reply.status, 200);
  EXPECT_THAT(reply.body, AllOf(StartsWith("<!doctype html>"), EndsWith("</html>\n")));
  EXPECT_EQ(reply.fields["content-type"], "text/html; charset=utf-8");
  EXPECT_THAT(reply.fields["content-security-policy"],
              AllOf(StartsWith("default-src 'self'; "), HasSubstr("frame-ancestors 'none'"),
                    Not(HasSubstr("unsafe"))));
  EXPECT_EQ(reply.fields["x-frame-options"], "DENY");
  EXPECT_EQ(reply.fields["x-content-type-options"], "nosniff");
  EXPECT_EQ(reply.fields["cache-control"], "no-cache");
}

TEST_F(Page, NamesOnlyFilesThatAreServed) {
  start();
  const std::regex name(R"re((?:href|src|from)[= ]"(?:\./)?([\w.]+\.\w+)")re");
  std::set<std::string> named = {"index.html"};
  for (const PageFile& file : page_files()) {
    const std::string text = gunzip(file.gzipped);
    for (std::sregex_iterator at(text.begin(), text.end(), name), end; at != end; ++at)
      named.insert((*at)[1]);
  }
  EXPECT_EQ(named.size(), page_files().size());
  for (const std::string& each : named) EXPECT_EQ(get("/ui/" + each).status, 200) << each;
  EXPECT_EQ(get("/ui/page.js").fields["content-type"], "text/javascript; charset=utf-8");
  EXPECT_EQ(get("/ui/page.css").fields["content-type"], "text/css; charset=utf-8");
  EXPECT_EQ(get("/ui/icon.svg").fields["content-type"], "image/svg+xml");
  EXPECT_EQ(get("/ui/licenses.txt").fields["content-type"], "text/plain; charset=utf-8");
  EXPECT_EQ(get("/ui/../api.cc").status, 404);
  EXPECT_EQ(get("/ui/nowhere.js").status, 404);
  EXPECT_EQ(post("/ui/").status, 405);
}

TEST_F(Page, IsSmall) {
  std::size_t bytes = 0;
  for (const PageFile& file : page_files()) bytes += file.gzipped.size();
  EXPECT_LE(bytes, 150 * 1024U);
}

TEST_F(Page, IsCompressedForClientsThatTakeIt) {
  start();

  RawReply compressed = get("/ui/page.js", "accept-encoding: br, gzip\r\n");
  RawReply plain = get("/ui/page.js", "accept-encoding: gzip;q=0\r\n");

  EXPECT_EQ(compressed.fields["content-encoding"], "gzip");
  EXPECT_EQ(compressed.fields["vary"], "accept-encoding");
  EXPECT_EQ(plain.fields.count("content-encoding"), 0U);
  EXPECT_EQ(gunzip(compressed.body), plain.body);
  EXPECT_LT(compressed.body.size(), plain.body.size());
}

TEST_F(Page, IsNotSentAgainToAClientThatHasIt) {
  start();
  const std::string tag = get("/ui/page.js").fields["etag"];
  ASSERT_THAT(tag, StartsWith("W/\""));
  EXPECT_NE(tag, get("/ui/live.js").fields["etag"]);

  for (const std::string& known : {tag, "\"x\", " + tag, std::string("*")}) {
    RawReply reply =
        exchange(request("GET", "/ui/page.js", "if-none-match: " + known + "\r\n"), true);
    EXPECT_EQ(reply.status, 304) << known;
    EXPECT_EQ(reply.fields["etag"], tag);
    EXPECT_EQ(reply.fields.count("content-length"), 0U);
  }
  EXPECT_EQ(get("/ui/page.js", "if-none-match: \"other\"\r\n").status, 200);
}

TEST_F(Page, AnswersHeadWithoutItsBody) {
  start();
  RawReply head = exchange(request("HEAD", "/ui/"), true);
  EXPECT_EQ(head.status, 200);
  EXPECT_EQ(head.fields["content-length"], std::to_string(get("/ui/").body.size()));
}

TEST_F(Page, IsWhereABrowserIsSent) {
  start();
  for (const char* target : {"/", "/ui"}) {
    RawReply reply = get(target, "accept: text/html,application/xhtml+xml\r\n");
    EXPECT_EQ(reply.status, 302) << target;
    EXPECT_EQ(reply.fields["location"], "/ui/") << target;
  }
  EXPECT_THAT(get("/", "accept: */*\r\n").body, StartsWith("evenkeel 1.2.3: admin listener\n"));
}

TEST_F(Page, IsKeptFromOtherNamesAsTheApiIs) {
  start();
  const std::string rebound = "GET /ui/ HTTP/1.1\r\nhost: evil.example\r\n\r\n";
  EXPECT_EQ(exchange(rebound).status, 403);
  EXPECT_EQ(get("/ui/", "origin: http://evil.example\r\n").status, 403);
}

TEST_F(Page, IsNoPartOfAnotherSitesPage) {
  start();
  const std::string image = "sec-fetch-site: cross-site\r\nsec-fetch-mode: no-cors\r\n";
  const std::string link = "sec-fetch-site: cross-site\r\nsec-fetch-mode: navigate\r\n";

  EXPECT_EQ(get("/api/v1/history", image).status, 403);
  EXPECT_EQ(get("/ui/", link).status, 200);
}

TEST(PlainPage, MovesNoTerminalsCursor) {
  const JsonValue status = JsonValue::Object{{"version", "1"}, {"uptime_seconds", 2}};
  const JsonValue backend = JsonValue::Object{{"pool", "chat"}, {"reason", "bad\x1b[2J\r\ntext"}};

  const AdminReply reply = plain_page_reply(status, {backend});

  EXPECT_THAT(*reply.body, HasSubstr("POOL"));
  EXPECT_THAT(*reply.body, Not(AnyOf(HasSubstr("\x1b"), HasSubstr("\r"))));
  EXPECT_THAT(*reply.body, HasSubstr("text\n"));
}

TEST_F(Page, NeedsNoTokenButEverythingThatItShowsDoes) {
  const std::string file = ::testing::TempDir() + "evenkeel-page-token-" + std::to_string(getpid());
  std::ofstream(file) << "0123456789abcdef\n";
  start("admin: {token_file: \"" + file + "\", token_for: all}\n" + std::string(two_pools));

  EXPECT_EQ(get("/ui/").status, 200);
  EXPECT_EQ(get("/", "accept: text/html\r\n").status, 302);
  for (const char* target : {"/ui/plain", "/api/v1/history", "/api/v1/events", "/api/v1/access"}) {
    EXPECT_EQ(get(target).status, 401) << target;
    EXPECT_EQ(get(target, "authorization: Bearer 0123456789abcdef\r\n").status, 200) << target;
  }
}

TEST_F(Page, ClientsAreToldWhetherTheyMayMakeChanges) {
  const std::string file = ::testing::TempDir() + "evenkeel-page-token-" + std::to_string(getpid());
  std::ofstream(file) << "0123456789abcdef\n";
  start("admin: {token_file: \"" + file + "\", token_for: changes}\n" + std::string(two_pools));

  EXPECT_EQ(get("/api/v1/access").body,
            "{\"changes\":false,\"reason\":\"changes need authorization: Bearer TOKEN\"}\n");
  EXPECT_EQ(get("/api/v1/access", "authorization: Bearer 0123456789abcdef\r\n").body,
            "{\"changes\":true,\"reason\":null}\n");
  EXPECT_THAT(get("/api/v1/access", "sec-fetch-site: same-site\r\n").body,
              HasSubstr("\"changes\":false"));
}

TEST_F(Page, HostileNamesAreTextEverywhere) {
  start(R"(
pools:
  - name: chat
    models: ["\"><img src=x onerror=alert(1)>"]
    backends: [{address: "127.0.0.1:8001", labels: {gpu: "</script><img src=x onerror=alert(1)>"}}]
)");

  RawReply backends = get("/api/v1/backends");
  RawReply plain = get("/ui/plain");

  EXPECT_EQ(backends.fields["content-type"], "application/json");
  EXPECT_EQ(backends.fields["x-content-type-options"], "nosniff");
  EXPECT_THAT(backends.body, AllOf(HasSubstr(R"("gpu":"</script><img src=x onerror=alert(1)>")"),
                                   HasSubstr(R"("\"><img src=x onerror=alert(1)>")")));
  EXPECT_EQ(plain.fields["content-type"], "text/plain; charset=utf-8");
  EXPECT_EQ(plain.fields["x-content-type-options"], "nosniff");
  EXPECT_THAT(plain.body, AllOf(HasSubstr("POOL  BACKEND"), HasSubstr("chat  127.0.0.1:8001")));
}

}  // namespace
}  // namespace evenkeel::testing
