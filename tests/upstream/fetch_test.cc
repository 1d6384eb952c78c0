#include "evenkeel/upstream/fetch.h"

#include <gtest/gtest.h>

#include "upstream/test_server.h"

namespace evenkeel {
namespace {

constexpr Duration patience = std::chrono::seconds(20);

Result<Fetched> fetched(Loop& loop, FetchRequest request, Duration limit = patience) {
  auto task = fetch(loop, std::move(request), loop.read_clock() + limit);
  EXPECT_TRUE(loop.run_until([&] { return task.ready(); }, Clock::now() + 2 * patience));
  return task.take();
}

TEST(Fetch, BringsStatusServerAndBody) {
  Loop loop;
  TestServer server(loop, {{"/info", {.status = 503, .body = "busy", .server = "llama.cpp"}}});

  auto answer =
      fetched(loop, {.addresses = {server.endpoint()}, .authority = "gpu:8000", .path = "/info"});

  ASSERT_TRUE(answer.ok()) << answer.error().detail;
  EXPECT_EQ(answer->status, 503);
  EXPECT_EQ(answer->server, "llama.cpp");
  EXPECT_EQ(answer->body, "busy");
  EXPECT_TRUE(answer->complete);
  EXPECT_EQ(server.last_authority(), "gpu:8000");
}

TEST(Fetch, TakesAHostFieldForTheAuthority) {
  Loop loop;
  TestServer server(loop, {{"/", {.body = "x"}}});

  auto answer = fetched(loop, {.addresses = {server.endpoint()},
                               .authority = "gpu:8000",
                               .path = "/",
                               .fields = {{"Host", "api.example.com"}}});

  ASSERT_TRUE(answer.ok()) << answer.error().detail;
  EXPECT_EQ(server.last_authority(), "api.example.com");
}

TEST(Fetch, TriesTheNextAddressWhenOneRefuses) {
  Loop loop;
  TestServer server(loop, {{"/", {.body = "x"}}});

  auto answer = fetched(
      loop,
      {.addresses = {closed_endpoint(), server.endpoint()}, .authority = "gpu:8000", .path = "/"});

  ASSERT_TRUE(answer.ok()) << answer.error().detail;
  EXPECT_EQ(answer->body, "x");
}

TEST(Fetch, ReportsARefusedConnection) {
  Loop loop;

  auto answer =
      fetched(loop, {.addresses = {closed_endpoint()}, .authority = "gpu:8000", .path = "/"});

  ASSERT_FALSE(answer.ok());
  EXPECT_EQ(answer.error().fault, Fault::connect_failed);
  EXPECT_EQ(answer.error().detail, "Connection refused");
}

TEST(Fetch, ReportsANonHttpPeer) {
  Loop loop;
  RawServer server(loop, "SSH-2.0-OpenSSH_9.2\r\n\r\n");

  auto answer =
      fetched(loop, {.addresses = {server.endpoint()}, .authority = "gpu:22", .path = "/"});

  ASSERT_FALSE(answer.ok());
  EXPECT_EQ(answer.error().fault, Fault::backend_protocol);
}

TEST(Fetch, EndsAtItsDeadlineAlthoughTheAnswerGoesOn) {
  Loop loop;
  RawServer server(loop, "HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n", true);
  const Instant began = Clock::now();

  auto answer =
      fetched(loop, {.addresses = {server.endpoint()}, .authority = "gpu:8000", .path = "/"},
              std::chrono::milliseconds(200));

  ASSERT_FALSE(answer.ok());
  EXPECT_EQ(answer.error().fault, Fault::first_byte_timeout);
  EXPECT_GE(Clock::now() - began, std::chrono::milliseconds(200));
}

TEST(Fetch, ReadsAtMostMaxBytes) {
  Loop loop;
  TestServer server(loop, {{"/long", {.body = std::string(300'000, 'x')}},
                           {"/exact", {.body = std::string(1000, 'x')}}});
  const auto of = [&](std::string path) {
    return FetchRequest{.addresses = {server.endpoint()},
                        .authority = "gpu:8000",
                        .path = std::move(path),
                        .max_bytes = 1000};
  };

  auto cut = fetched(loop, of("/long"));
  auto exact = fetched(loop, of("/exact"));

  ASSERT_TRUE(cut.ok() && exact.ok());
  EXPECT_EQ(cut->body, std::string(1000, 'x'));
  EXPECT_FALSE(cut->complete);
  EXPECT_EQ(exact->body, std::string(1000, 'x'));
  EXPECT_TRUE(exact->complete);
}

TEST(Fetch, CanBeDroppedAtAnyMoment) {
  Loop loop;
  TestServer server(loop, {{"/", {.body = std::nullopt}}});
  auto task = fetch(loop, {.addresses = {server.endpoint()}, .authority = "gpu:8000", .path = "/"},
                    loop.read_clock() + patience);
  ASSERT_TRUE(loop.run_until([&] { return !server.asked().empty(); }, Clock::now() + patience));

  task.drop();
  bool turned = false;
  loop.post([&] { turned = true; });

  EXPECT_TRUE(loop.run_until([&] { return turned; }, Clock::now() + patience));
}

TEST(FetchNow, NeedsNoLoop) {
  auto answer = fetch_blocking(
      {.addresses = {closed_endpoint()}, .authority = "gpu:8000", .path = "/"}, patience);

  ASSERT_FALSE(answer.ok());
  EXPECT_EQ(answer.error().fault, Fault::connect_failed);
}

}  // namespace
}  // namespace evenkeel
