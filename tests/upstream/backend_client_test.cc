#include "evenkeel/upstream/backend_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "upstream/scripted_server.h"
#include "upstream/test_server.h"
#include "wire/peer.h"

namespace evenkeel {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::Not;

constexpr Duration patience = 20s;

ServerAccess access_to(const Endpoint& endpoint) {
  return {.addresses = {endpoint}, .authority = "gpu:8000"};
}

std::string response_with(const std::string& body) {
  return "HTTP/1.1 200 OK\r\ncontent-length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}

class BackendClients : public testing::Test {
 protected:
  Result<Fetched> fetched(BackendClient& client, BackendClientRequest request,
                          Duration timeout = patience) {
    return finish(client.fetch(std::move(request), loop.read_clock() + timeout));
  }
  template <class T>
  T finish(Task<T> task) {
    EXPECT_TRUE(loop.run_until([&] { return task.ready(); }, Clock::now() + 2 * patience));
    return task.take();
  }

  Loop loop;
};

TEST_F(BackendClients, ReturnStatusServerAndBody) {
  TestServer server(loop, {{"/info", {.status = 503, .body = "busy", .server = "llama.cpp"}}});
  BackendClient client(loop, access_to(server.endpoint()));

  auto response = fetched(client, {.path = "/info"});

  ASSERT_TRUE(response.ok()) << response.error().detail;
  EXPECT_EQ(response->status, 503);
  EXPECT_EQ(response->server, "llama.cpp");
  EXPECT_EQ(response->body, "busy");
  EXPECT_TRUE(response->complete);
  EXPECT_EQ(server.last_authority(), "gpu:8000");
}

TEST_F(BackendClients, FollowRedirectsOfTheSameOrigin) {
  for (const char* location : {"/b?c=d", "http://gpu:8000/b?c=d", "HTTP://GPU.:8000/b?c=d#top",
                               "//gpu:8000/b?c=d", "b?c=d", "./b?c=d"}) {
    TestServer server(loop, {{"/a", {.status = 307, .body = "moved", .location = location}},
                             {"/b?c=d", {.body = "here"}}});
    BackendClient client(loop, access_to(server.endpoint()));

    auto response = fetched(client, {.path = "/a"});

    ASSERT_TRUE(response.ok()) << location;
    EXPECT_EQ(response->body, "here") << location;
    EXPECT_EQ(server.connections(), 1u) << location;
  }
}

TEST_F(BackendClients, FollowNoRedirectToAnotherOriginAndNoneWithoutEnd) {
  for (const char* location :
       {"https://gpu:8000/b", "http://gpu/b", "http://gpu:8001/b", "http://gpu2:8000/b",
        "//gpu2:8000/b", "ftp://gpu:8000/b", "javascript:b", "/b c", "/a"}) {
    TestServer server(
        loop, {{"/a", {.status = 302, .body = "", .location = location}}, {"/b", {.body = "no"}}});
    BackendClient client(loop, access_to(server.endpoint()));

    auto response = fetched(client, {.path = "/a"});

    ASSERT_TRUE(response.ok()) << location;
    EXPECT_EQ(response->status, 302) << location;
    EXPECT_EQ(response->location, location);
    EXPECT_LE(server.requests().size(), 4u) << location;
  }
}

TEST_F(BackendClients, SendTheApiKeyAndTheBody) {
  ScriptedServer server(loop);
  ServerAccess access = access_to(server.endpoint());
  access.key.value = "Bearer key";
  BackendClient client(loop, std::move(access));

  auto pending = client.fetch({.method = "POST", .path = "/v1/completions", .json = "{}"},
                              loop.read_clock() + patience);
  const std::string head = server.connection(0).read_head();
  server.connection(0).read_to("{}");
  server.connection(0).send(response_with("ok"));

  EXPECT_EQ(finish(std::move(pending))->body, "ok");
  EXPECT_THAT(head, HasSubstr("POST /v1/completions HTTP/1.1\r\n"));
  EXPECT_THAT(head, HasSubstr("authorization: Bearer key\r\n"));
  EXPECT_THAT(head, HasSubstr("content-type: application/json\r\n"));
}

TEST_F(BackendClients, LetFieldsOfARequestReplaceTheirOwn) {
  ScriptedServer server(loop);
  BackendClient client(loop, access_to(server.endpoint()));

  auto pending =
      client.fetch({.path = "/", .fields = {{"Host", "api.example.com"}, {"User-Agent", "load"}}},
                   loop.read_clock() + patience);
  const std::string head = server.connection(0).read_head();
  server.connection(0).send(response_with(""));

  EXPECT_TRUE(finish(std::move(pending)).ok());
  EXPECT_THAT(head, HasSubstr("host: api.example.com\r\n"));
  EXPECT_THAT(head, HasSubstr("load\r\n"));
  EXPECT_THAT(head, Not(HasSubstr("evenkeel")));
}

TEST_F(BackendClients, KeepTheirConnectionUnlessConfiguredOtherwise) {
  TestServer server(loop, {{"/", {.body = "x"}}});
  ServerAccess access = access_to(server.endpoint());
  BackendClient keeping(loop, access);
  access.keeps_links = false;
  BackendClient closing(loop, access);

  for (BackendClient* client : {&keeping, &closing}) {
    for (int i = 0; i < 2; ++i) EXPECT_TRUE(fetched(*client, {.path = "/"}).ok());
  }

  EXPECT_TRUE(keeping.has_idle_link());
  EXPECT_FALSE(closing.has_idle_link());
  EXPECT_EQ(server.connections(), 3u);
}

TEST_F(BackendClients, ResendOnceOverANewConnectionIfAnIdleOneCloses) {
  ScriptedServer server(loop);
  BackendClient client(loop, access_to(server.endpoint()));
  auto first = client.fetch({.path = "/first"}, loop.read_clock() + patience);
  server.connection(0).read_head();
  server.connection(0).send(response_with("1"));
  ASSERT_EQ(finish(std::move(first))->body, "1");

  auto second = client.fetch({.path = "/second"}, loop.read_clock() + patience);
  server.connection(0).read_head();
  server.connection(0).close();
  const std::string resent = server.connection(1).read_head();
  server.connection(1).send(response_with("2"));

  EXPECT_EQ(finish(std::move(second))->body, "2");
  EXPECT_THAT(resent, HasSubstr("GET /second "));
  EXPECT_EQ(server.accepted(), 2u);
}

TEST_F(BackendClients, DoNotResendAfterPartOfAResponse) {
  ScriptedServer server(loop);
  BackendClient client(loop, access_to(server.endpoint()));
  auto first = client.fetch({.path = "/"}, loop.read_clock() + patience);
  server.connection(0).read_head();
  server.connection(0).send(response_with("1"));
  ASSERT_TRUE(finish(std::move(first)).ok());

  auto second = client.fetch({.path = "/"}, loop.read_clock() + patience);
  server.connection(0).read_head();
  server.connection(0).send("HTTP/1.1 200 OK\r\n");
  server.connection(0).close();

  auto response = finish(std::move(second));
  ASSERT_FALSE(response.ok());
  EXPECT_EQ(response.error().fault, Fault::backend_closed);
  EXPECT_EQ(server.accepted(), 1u);
}

TEST_F(BackendClients, DoNotResendOverAndOver) {
  ScriptedServer server(loop);
  BackendClient client(loop, access_to(server.endpoint()));

  auto pending = client.fetch({.path = "/"}, loop.read_clock() + patience);
  server.connection(0).read_head();
  server.connection(0).close();

  EXPECT_FALSE(finish(std::move(pending)).ok());
  EXPECT_EQ(server.accepted(), 1u);
}

TEST_F(BackendClients, TryTheNextAddressIfOneRefuses) {
  TestServer server(loop, {{"/", {.body = "x"}}});
  BackendClient client(
      loop, {.addresses = {closed_endpoint(), server.endpoint()}, .authority = "gpu:8000"});

  EXPECT_EQ(fetched(client, {.path = "/"})->body, "x");
}

TEST_F(BackendClients, ReportARefusedConnection) {
  BackendClient client(loop, access_to(closed_endpoint()));

  auto response = fetched(client, {.path = "/"});

  ASSERT_FALSE(response.ok());
  EXPECT_EQ(response.error().fault, Fault::connect_failed);
  EXPECT_EQ(response.error().detail, "Connection refused");
}

TEST_F(BackendClients, ReportAServerThatDoesNotSpeakHttp) {
  RawServer server(loop, "SSH-2.0-OpenSSH_9.2\r\n\r\n");
  BackendClient client(loop, access_to(server.endpoint()));

  auto response = fetched(client, {.path = "/"});

  ASSERT_FALSE(response.ok());
  EXPECT_EQ(response.error().fault, Fault::backend_protocol);
}

TEST_F(BackendClients, EndAtTheDeadlineThoughTheBodyGoesOn) {
  RawServer server(loop, "HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n", true);
  BackendClient client(loop, access_to(server.endpoint()));
  const Instant began = Clock::now();

  auto response = fetched(client, {.path = "/"}, 200ms);

  ASSERT_FALSE(response.ok());
  EXPECT_EQ(response.error().fault, Fault::first_byte_timeout);
  EXPECT_GE(Clock::now() - began, 200ms);
}

TEST_F(BackendClients, ReadAtMostMaxBytes) {
  TestServer server(loop, {{"/long", {.body = std::string(300'000, 'x')}},
                           {"/exact", {.body = std::string(1000, 'x')}}});
  BackendClient client(loop, access_to(server.endpoint()));

  auto cut = fetched(client, {.path = "/long", .max_bytes = 1000});
  auto exact = fetched(client, {.path = "/exact", .max_bytes = 1000});

  ASSERT_TRUE(cut.ok() && exact.ok());
  EXPECT_EQ(cut->body, std::string(1000, 'x'));
  EXPECT_FALSE(cut->complete);
  EXPECT_EQ(exact->body, std::string(1000, 'x'));
  EXPECT_TRUE(exact->complete);
}

TEST_F(BackendClients, EndWhenTheirTaskIsDropped) {
  ScriptedServer server(loop);
  BackendClient client(loop, access_to(server.endpoint()));
  auto pending = client.fetch({.path = "/"}, loop.read_clock() + patience);
  server.connection(0).read_head();

  pending.drop();

  EXPECT_TRUE(eventually(loop, [&] { return server.connection(0).ended(); }));
}

TEST_F(BackendClients, TranslateTheStatusOfAnHttpResponseToACall) {
  TestServer server(loop, {});
  BackendClient client(loop, access_to(server.endpoint()));

  auto reply =
      finish(client.call({.path = "/grpc.health.v1.Health/Check"}, loop.read_clock() + patience));

  ASSERT_TRUE(reply.ok()) << reply.error().detail;
  EXPECT_FALSE(reply->grpc);
  EXPECT_EQ(reply->status, GrpcStatus::unimplemented);
}

TEST_F(BackendClients, ConnectWithoutARequest) {
  TestServer server(loop, {});
  BackendClient good(loop, access_to(server.endpoint()));
  BackendClient bad(loop, access_to(closed_endpoint()));

  EXPECT_TRUE(finish(good.connect(loop.read_clock() + patience)).ok());
  EXPECT_FALSE(finish(bad.connect(loop.read_clock() + patience)).ok());
  EXPECT_TRUE(server.requests().empty());
}

TEST(FetchBlocking, NeedsNoLoop) {
  auto response = fetch_blocking(
      {.addresses = {closed_endpoint()}, .authority = "gpu:8000", .path = "/"}, patience);

  ASSERT_FALSE(response.ok());
  EXPECT_EQ(response.error().fault, Fault::connect_failed);
}

}  // namespace
}  // namespace evenkeel
