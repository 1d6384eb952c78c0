// gRPC calls through the whole chain. The modules above `wire` do not see that calls usually
// use HTTP/2: here they are chunked messages with trailers.
#include <gtest/gtest.h>

#include "proxy/chain.h"

namespace evenkeel {
namespace {

using namespace std::chrono_literals;

constexpr std::string_view call =
    "POST /p.S/M HTTP/1.1\r\nHost: a\r\nTE: trailers\r\nContent-Type: application/grpc\r\n"
    "Content-Length: 5\r\n";
constexpr std::string_view message("\0\0\0\0\0", 5);

std::string value_in(std::string_view head, std::string_view name) {
  const std::string start = "\r\n" + std::string(name) + ": ";
  const auto at = head.find(start);
  if (at == std::string_view::npos) return "(none)";
  const auto value = head.substr(at + start.size());
  return std::string(value.substr(0, value.find("\r\n")));
}

class GrpcChain : public Chain {
 protected:
  std::unique_ptr<Peer> client_with(std::string_view more_fields) {
    auto client = connect();
    client->send(std::string(call) + std::string(more_fields) + "\r\n" + std::string(message));
    return client;
  }
  std::uint64_t counted(std::size_t grpc_status) {
    const GrpcStatusCounters* counters = metrics_registry.worker_metrics(0).find_grpc(1, 1);
    return counters == nullptr ? 0 : counters->value(grpc_status);
  }
};

TEST_F(GrpcChain, ForwardsTheRemainingDeadline) {
  auto client = client_with("grpc-timeout: 10S\r\n");

  const std::string left = value_in(server.connection(0).read_head(), "grpc-timeout");

  EXPECT_EQ(left.back(), 'u') << left;
  EXPECT_LT(std::stoi(left), 10'000'000);
  EXPECT_GT(std::stoi(left), 5'000'000);
}

TEST_F(GrpcChain, SubtractsQueueTimeFromTheDeadline) {
  config.pools[0].limits.max_in_flight = 1;
  config.pools[0].limits.queue = {.size = 1, .timeout = 10s};
  auto first = client_with("");
  server.connection(0).read_head();
  auto second = client_with("grpc-timeout: 10S\r\n");
  ASSERT_TRUE(eventually(loop, [&] { return metrics_registry.waiting(1) == 1; }));
  loop.run_until([] { return false; }, Clock::now() + 100ms);
  server.connection(0).read_bytes(5);
  server.connection(0).send(
      "HTTP/1.1 200 OK\r\nContent-Type: application/grpc\r\ngrpc-status: 0\r\n"
      "Content-Length: 0\r\n\r\n");

  const std::string left = value_in(server.connection(0).read_head(), "grpc-timeout");

  EXPECT_LE(std::stoi(left), 9'900'000) << left;
}

TEST_F(GrpcChain, DropsTheBackendAtTheDeadline) {
  auto client = client_with("grpc-timeout: 30m\r\n");
  server.connection(0).read_head();

  const std::string answer = client->read_message();

  EXPECT_EQ(value_in(answer, "grpc-status"), "4");
  EXPECT_EQ(value_in(answer, "x-evenkeel-reason"), "deadline_exceeded");
  EXPECT_TRUE(server.connection(0).sees_end());
  EXPECT_TRUE(at_rest());
  EXPECT_EQ(counted(4), 1u);
}

TEST_F(GrpcChain, ReportsABrokenResponseInTrailers) {
  auto client = client_with("");
  server.connection(0).read_head();
  server.connection(0).send(
      "HTTP/1.1 200 OK\r\nContent-Type: application/grpc\r\nTransfer-Encoding: chunked\r\n\r\n"
      "5\r\nhello\r\n");
  client->read_head();
  EXPECT_EQ(client->read_to("hello\r\n"), "5\r\nhello\r\n");
  server.connection(0).close();

  const std::string rest = client->read_to("\r\n\r\n");

  EXPECT_TRUE(rest.starts_with("0\r\ngrpc-status: 14\r\n")) << rest;
  EXPECT_TRUE(at_rest());
  EXPECT_EQ(counted(14), 1u);
}

TEST_F(GrpcChain, AnswersACallThatNoRouteMatchesAsUnimplemented) {
  config.routes[0].match.path = "/other.Service/**";
  auto client = client_with("");

  const std::string answer = client->read_message();

  EXPECT_TRUE(answer.starts_with("HTTP/1.1 200 OK\r\n"));
  EXPECT_EQ(value_in(answer, "content-type"), "application/grpc");
  EXPECT_EQ(value_in(answer, "grpc-status"), "12");
  EXPECT_EQ(value_in(answer, "content-length"), "0");
  EXPECT_TRUE(at_rest());
  EXPECT_EQ(metrics_registry.worker_metrics(0).find_grpc(0, 0)->value(12), 1u);
}

TEST_F(GrpcChain, ExemptsGrpcRoutesFromBodyLimits) {
  options.limits.body_bytes = 8;
  options.timeouts.body = 50ms;
  config.routes[0].match.grpc = {"p.S"};
  auto client = connect();
  client->send(
      "POST /p.S/M HTTP/1.1\r\nHost: a\r\nContent-Type: application/grpc\r\n"
      "Transfer-Encoding: chunked\r\n\r\n5\r\n12345\r\n");
  server.connection(0).read_head();
  EXPECT_EQ(server.connection(0).read_to("12345\r\n"), "5\r\n12345\r\n");

  loop.run_until([] { return false; }, Clock::now() + 150ms);
  client->send("5\r\n67890\r\n");

  EXPECT_EQ(server.connection(0).read_to("67890\r\n"), "5\r\n67890\r\n");
}

TEST_F(GrpcChain, KeepsTheLimitsOfBodiesOnAllOtherRoutes) {
  options.limits.body_bytes = 8;
  auto client = connect();
  client->send(
      "POST /p.S/M HTTP/1.1\r\nHost: a\r\nContent-Type: application/grpc\r\n"
      "Transfer-Encoding: chunked\r\n\r\n9\r\n123456789\r\n");

  const std::string answer = client->read_message();

  EXPECT_EQ(value_in(answer, "grpc-status"), "8");
  EXPECT_EQ(value_in(answer, "x-evenkeel-reason"), "body_too_large");
}

TEST_F(GrpcChain, CountsACallWhoseClientLeftAsCancelled) {
  auto client = client_with("");
  server.connection(0).read_head();
  client->close();
  EXPECT_TRUE(at_rest());
  EXPECT_EQ(counted(1), 1u);
}

}  // namespace
}  // namespace evenkeel
