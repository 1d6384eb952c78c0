// Backend connections of HTTP/1: requests sent and responses read.
#include "wire/http1_link_test.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "wire/response_buffer.h"

namespace evenkeel {
namespace {

using namespace std::chrono_literals;

class InterimRecorder final : public InterimHandler {
 public:
  void interim(int status, const Fields& fields) override {
    received += std::to_string(status) + " " + std::string(fields.value("link").value_or("")) + ";";
  }
  std::string received;
};
class Http1Link : public Http1LinkTest {};

// ---- requests ----------------------------------------------------------------------------------

TEST_F(Http1Link, SendsARequestAndReadsItsResponse) {
  connect();
  Request request = post("hello");
  request.fields.add("Accept", "b");
  Exchange exchange;
  start(request, exchange);

  EXPECT_EQ(backend->read_to("hello"),
            "POST / HTTP/1.1\r\nhost: a\r\nAccept: b\r\ncontent-length: 5\r\n\r\nhello");
  EXPECT_EQ(link->available_capacity(), 0u);
  backend->send("HTTP/1.1 201 Made\r\nContent-Type: x\r\nContent-Length: 3\r\n\r\nabc");
  ASSERT_TRUE(ends(exchange));

  EXPECT_EQ(exchange.status(), 201);
  EXPECT_EQ(exchange.body.bytes, "abc");
  EXPECT_EQ(link->available_capacity(), 1u);
}

TEST_F(Http1Link, ServesConsecutiveRequests) {
  connect();
  for (int i = 0; i < 5; ++i) {
    const auto exchange =
        answered("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n");
    EXPECT_EQ(exchange->body.bytes, "hi");
    EXPECT_EQ(link->available_capacity(), 1u);
    EXPECT_TRUE(link->alive(true));
  }
}

TEST_F(Http1Link, ReadsALongResponseHoweverItIsSplit) {
  const std::int64_t before = ResponseBudget::taken();
  std::string body(300'000, '\0');
  for (std::size_t i = 0; i < body.size(); ++i) body[i] = static_cast<char>('a' + i % 23);
  const std::string message = "HTTP/1.1 200 OK\r\nContent-Length: 300000\r\n\r\n" + body;
  for (const std::size_t piece : {message.size(), std::size_t{1'000}, std::size_t{16'384},
                                  std::size_t{20'000}, std::size_t{150'000}}) {
    connect(1 << 20);
    for (int repeat = 0; repeat < 2; ++repeat) {
      Request request = get();
      Exchange exchange;
      start(request, exchange);
      backend->read_head();
      for (std::size_t at = 0; at < message.size(); at += piece) {
        backend->send(std::string_view(message).substr(at, piece));
        drain_loop(loop, 1);
      }
      ASSERT_TRUE(ends(exchange));
      EXPECT_EQ(exchange.body.bytes, body) << piece;
      EXPECT_EQ(link->available_capacity(), 1u);
      EXPECT_EQ(ResponseBudget::taken(), before);
    }
  }
}

TEST_F(Http1Link, ReportsALongResponseThatEndsBehindItsFirstPart) {
  const std::string part(20'000, 'x');
  EXPECT_EQ(fault_of("HTTP/1.1 200 OK\r\nContent-Length: 300000\r\n\r\n" + part),
            Fault::backend_closed);
}

TEST_F(Http1Link, ReadsLargeResponsesInSmallPiecesWhenTheBudgetIsSpent) {
  std::uint32_t spent = 0;
  while (ResponseBudget::take(Block::large)) spent += Block::large;
  const std::string body(300'000, 'x');
  const std::string length = std::to_string(body.size());
  for (const std::size_t head_bytes : {10UL, 14'000UL}) {  // with and without room behind the head
    connect();
    const auto exchange = answered("HTTP/1.1 200 OK\r\nContent-Length: " + length +
                                   "\r\nX: " + std::string(head_bytes, 'y') + "\r\n\r\n" + body);
    EXPECT_EQ(exchange->body.bytes, body);
    EXPECT_EQ(ResponseBudget::taken(), spent);
  }
  ResponseBudget::give_back(spent);
}

TEST_F(Http1Link, ReadsLargeResponsesInSmallPiecesWhenItsClientsConnectionHasSpentItsBudget) {
  const std::int64_t before = ResponseBudget::taken();
  ConnectionBudget spent(Block::large - 1);
  connect();
  Request request = get();
  request.response_budget = &spent;
  Exchange exchange{.collects = false};
  start(request, exchange);
  backend->read_head();
  const std::string content(100'000, 'x');
  backend->send("HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n" + content);
  ASSERT_TRUE(eventually(loop, [&] { return exchange.head.has_value(); }));
  Body& body = *(*exchange.head)->body;

  std::string read;
  for (bool last = false; !last;) {
    auto reading = body.read();
    ASSERT_TRUE(eventually(loop, [&] { return reading.ready(); }));
    auto chunk = reading.take();
    ASSERT_TRUE(chunk.ok());
    EXPECT_LE(chunk->bytes.size(), Block::small);
    EXPECT_EQ(ResponseBudget::taken(), before);
    read += chunk->bytes;
    last = chunk->last;
  }
  EXPECT_EQ(read, content);
  EXPECT_EQ(spent.left(), Block::large - 1);
}

TEST_F(Http1Link, TakesFromTheBudgetWhileALargeResponseIsNotRead) {
  const std::int64_t before = ResponseBudget::taken();
  connect();
  Request request = get();
  Exchange exchange{.collects = false};
  start(request, exchange);
  backend->read_head();
  backend->send("HTTP/1.1 200 OK\r\nContent-Length: 200000\r\n\r\n" + std::string(100'000, 'x'));
  ASSERT_TRUE(eventually(loop, [&] { return exchange.head.has_value(); }));
  Body& body = *(*exchange.head)->body;
  for (int i = 0; i < 3 && ResponseBudget::taken() == before; ++i) {
    auto chunk = body.read();
    EXPECT_TRUE(eventually(loop, [&] { return chunk.ready(); }));
  }
  EXPECT_EQ(ResponseBudget::taken(), before + Block::huge);

  (*exchange.head)->body.reset();
  EXPECT_EQ(ResponseBudget::taken(), before);
}

TEST_F(Http1Link, SendsContentLengthZeroForAPostWithoutABody) {
  connect();
  Request request = get();
  request.method = "POST";
  Exchange exchange;
  start(request, exchange);

  EXPECT_EQ(backend->read_head(), "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 0\r\n\r\n");
}

TEST_F(Http1Link, SendsABodyOfUnknownLengthInChunksWithTrailers) {
  connect();
  auto feed = std::make_shared<BodyFeed>(loop);
  Request request = post(feed);
  Exchange exchange;
  start(request, exchange);
  EXPECT_EQ(backend->read_head(),
            "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n");

  feed->push("one");
  EXPECT_EQ(backend->read_to("\r\none\r\n"), "3\r\none\r\n");
  feed->push("two");
  EXPECT_EQ(backend->read_to("\r\ntwo\r\n"), "3\r\ntwo\r\n");
  feed->trailers.add("x-sum", "6");
  feed->end();
  EXPECT_EQ(backend->read_to("\r\n\r\n"), "0\r\nx-sum: 6\r\n\r\n");
}

TEST_F(Http1Link, SendsLargeBodiesAtTheBackendsPace) {
  connect(16 * 1024);
  auto feed = std::make_shared<BodyFeed>(loop);
  feed->length = 400 * 16'384;
  for (int i = 0; i < 400; ++i) feed->push(std::string(16'384, static_cast<char>('a' + i % 26)));
  feed->end();
  std::string expected;
  for (int i = 0; i < 400; ++i) expected.append(16'384, static_cast<char>('a' + i % 26));
  Request request = post(feed);
  Exchange exchange;
  start(request, exchange);
  drain_loop(loop, 50);

  const int reads = feed->reads;
  EXPECT_LT(reads, 100);
  drain_loop(loop, 50);
  EXPECT_EQ(feed->reads, reads);

  backend->read_head();
  EXPECT_EQ(backend->read_bytes(expected.size()), expected);
  backend->send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
  EXPECT_TRUE(ends(exchange));
  EXPECT_EQ(link->available_capacity(), 1u);
}

TEST_F(Http1Link, StreamsBothWaysAtOnce) {
  connect();
  auto feed = std::make_shared<BodyFeed>(loop);
  Request request = post(feed);
  Exchange exchange;
  start(request, exchange);
  backend->read_head();
  backend->send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
  ASSERT_TRUE(eventually(loop, [&] { return exchange.head.has_value(); }));

  for (int i = 0; i < 5; ++i) {
    feed->push("ping");
    EXPECT_EQ(backend->read_to("ping\r\n"), "4\r\nping\r\n");
    backend->send("4\r\npong\r\n");
    EXPECT_TRUE(eventually(
        loop, [&] { return exchange.body.bytes.size() == 4u * (static_cast<unsigned>(i) + 1); }));
  }
  feed->end();
  EXPECT_EQ(backend->read_to("0\r\n\r\n"), "0\r\n\r\n");
  backend->send("0\r\n\r\n");
  EXPECT_TRUE(ends(exchange));
  EXPECT_EQ(link->available_capacity(), 1u);
}

// ---- responses ---------------------------------------------------------------------------------

TEST_F(Http1Link, ReadsBodiesOfAllKindsByteByByte) {
  const std::string_view answers[] = {
      "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;x\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n",
      "HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
      "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 5\r\n\r\nhello",
  };
  connect();
  for (const auto answer : answers) {
    Request request = get();
    Exchange exchange;
    start(request, exchange);
    backend->read_head();
    for (const char c : answer) {
      backend->send({&c, 1});
      drain_loop(loop, 1);
    }
    ASSERT_TRUE(ends(exchange)) << answer;
    EXPECT_EQ(exchange.body.bytes, "hello") << answer;
    EXPECT_EQ(link->available_capacity(), 1u) << answer;
  }
}

TEST_F(Http1Link, ReadsAnUndelimitedBodyToTheEndOfTheConnection) {
  connect();
  Request request = get();
  Exchange exchange;
  start(request, exchange);
  backend->read_head();
  backend->send("HTTP/1.1 200 OK\r\n\r\nsome ");
  backend->send("text");
  drain_loop(loop);
  EXPECT_FALSE(exchange.body.done);

  backend->finish_sending();

  ASSERT_TRUE(ends(exchange));
  EXPECT_EQ(exchange.body.bytes, "some text");
  EXPECT_EQ(link->available_capacity(), 0u);
}

TEST_F(Http1Link, ReadsLargeBodiesWhole) {
  connect();
  std::string body(5'000'000, '\0');
  for (std::size_t i = 0; i < body.size(); ++i) body[i] = static_cast<char>('a' + i * 7 / 3 % 26);
  std::string chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
  for (std::size_t at = 0; at < body.size(); at += 50'000) {
    chunked += "c350\r\n" + body.substr(at, 50'000) + "\r\n";
  }

  EXPECT_EQ(answered("HTTP/1.1 200 OK\r\nContent-Length: 5000000\r\n\r\n" + body)->body.bytes,
            body);
  EXPECT_EQ(answered(chunked + "0\r\n\r\n")->body.bytes, body);
  EXPECT_EQ(link->available_capacity(), 1u);
}

TEST_F(Http1Link, DeliversTrailers) {
  connect();
  const auto exchange = answered(
      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\ngrpc-status: "
      "0\r\nContent-Length: 7\r\n\r\n");

  EXPECT_EQ(exchange->body.trailers, "grpc-status: 0\n");
}

TEST_F(Http1Link, RecognizesResponsesWithoutABody) {
  connect();
  EXPECT_EQ(answered("HTTP/1.1 200 OK\r\nContent-Length: 300\r\n\r\n", "HEAD")
                ->head->operator*()
                .declared_length,
            300u);
  EXPECT_EQ(answered("HTTP/1.1 204 No Content\r\n\r\n")->body.bytes, "");
  EXPECT_EQ(answered("HTTP/1.1 304 Not Modified\r\nContent-Length: 300\r\n\r\n")->body.bytes, "");
  EXPECT_EQ(answered("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")->body.bytes, "");
  EXPECT_EQ(answered("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n")->body.bytes,
            "");
  EXPECT_EQ(link->available_capacity(), 1u);
}

TEST_F(Http1Link, PausesTheBackendForASlowReader) {
  connect(16 * 1024);
  Request request = get();
  Exchange exchange;
  exchange.collects = false;
  start(request, exchange);
  backend->read_head();
  backend->send("HTTP/1.1 200 OK\r\nContent-Length: 50000000\r\n\r\n");
  ASSERT_TRUE(eventually(loop, [&] { return exchange.head.has_value(); }));
  const std::string much(1'000'000, 'x');

  std::string_view left = much;
  for (int i = 0; i < 50; ++i) {
    backend->send_some(left);
    drain_loop(loop, 1);
  }

  EXPECT_GT(left.size(), 500'000u);  // the body is not read: the rest stays in the socket
}

// ---- interim responses -------------------------------------------------------------------------

TEST_F(Http1Link, ForwardsInterimResponsesExceptContinue) {
  connect();
  InterimRecorder hears;
  Request request = get();
  request.interim = &hears;
  Exchange exchange;
  start(request, exchange);
  backend->read_head();
  backend->send("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\n");
  drain_loop(loop);
  backend->send(
      "HTTP/1.1 103 Early Hints\r\nLink: b\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");

  ASSERT_TRUE(ends(exchange));
  EXPECT_EQ(hears.received, "103 a;103 b;");
  EXPECT_EQ(exchange.status(), 200);
}

TEST_F(Http1Link, AcceptsInterimResponsesLargerThanTheBufferInTotal) {
  connect();
  std::string bytes;
  for (int i = 0; i < 10; ++i)
    bytes += "HTTP/1.1 103 Early Hints\r\nLink: " + std::string(15'000, 'l') + "\r\n\r\n";
  const auto exchange = answered(bytes + "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi");

  EXPECT_EQ(exchange->body.bytes, "hi");
}

// ---- tunnels -----------------------------------------------------------------------------------

TEST_F(Http1Link, TunnelsInBothDirectionsIncludingHalfCloses) {
  connect();
  auto feed = std::make_shared<BodyFeed>(loop);
  Request request = get("/ws");
  request.upgrade = "websocket";
  request.fields.add("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ==");
  request.body = std::make_unique<ScriptedBody>(feed);
  Exchange exchange;
  start(request, exchange);
  EXPECT_EQ(backend->read_head(),
            "GET /ws HTTP/1.1\r\nhost: a\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
            "connection: upgrade\r\nupgrade: websocket\r\n\r\n");
  EXPECT_EQ(feed->reads, 0);

  backend->send(
      "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
      "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\nhello");
  EXPECT_TRUE(eventually(loop, [&] { return exchange.body.bytes == "hello"; }));
  EXPECT_EQ(exchange.status(), 101);
  feed->push("from the client");
  EXPECT_EQ(backend->read_to("client"), "from the client");

  feed->end();
  EXPECT_EQ(backend->read_to_end(), "");
  backend->send("last words");
  backend->finish_sending();
  ASSERT_TRUE(ends(exchange));
  EXPECT_EQ(exchange.body.bytes, "hellolast words");
  EXPECT_EQ(link->available_capacity(), 0u);
}

TEST_F(Http1Link, ChecksTheAnswerToAnUpgrade) {
  struct Case {
    const char* answer;
    int status;  // 0: an error
  };
  const Case cases[] = {
      {"Upgrade: websocket\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n", 101},
      {"Upgrade: WebSocket\r\nsec-websocket-accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n", 101},
      {"Upgrade: websocket\r\nSec-WebSocket-Accept: S3PPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n", 0},
      {"Upgrade: websocket\r\n", 0},
      {"Upgrade: chat\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n", 0},
      {"Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n", 0}};
  for (const Case& each : cases) {
    connect();
    Request request = get("/ws");
    request.upgrade = "websocket";
    request.fields.add("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ==");
    request.body = std::make_unique<ScriptedBody>(std::make_shared<BodyFeed>(loop));
    Exchange exchange;
    start(request, exchange);
    backend->read_head();
    backend->send(std::string("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n") +
                  each.answer + "\r\n");
    backend->finish_sending();

    ASSERT_TRUE(ends(exchange));
    EXPECT_EQ(exchange.status(), each.status) << each.answer;
    EXPECT_EQ(exchange.failed(Fault::backend_protocol), each.status == 0) << each.answer;
    EXPECT_EQ(link->available_capacity(), 0u);
  }
}

TEST_F(Http1Link, TreatsARejectedUpgradeAsAResponse) {
  connect();
  auto feed = std::make_shared<BodyFeed>(loop);
  Request request = get("/ws");
  request.upgrade = "websocket";
  request.body = std::make_unique<ScriptedBody>(feed);
  Exchange exchange;
  start(request, exchange);
  backend->read_head();
  backend->send("HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno");

  ASSERT_TRUE(ends(exchange));
  EXPECT_EQ(exchange.status(), 403);
  EXPECT_EQ(feed->reads, 0);
  EXPECT_EQ(link->available_capacity(), 1u);
}

}  // namespace
}  // namespace evenkeel
