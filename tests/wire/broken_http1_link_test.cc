// Backend connections of HTTP/1 that break, and backends that send what is not HTTP.
#include <gtest/gtest.h>

#include <string>

#include "wire/http1_link_test.h"

namespace evenkeel {
namespace {

using namespace std::chrono_literals;

struct WakeCounter {
  void add() { ++count; }
  int count = 0;
  MethodWaiter<&WakeCounter::add> waiter{*this};
};
class BrokenHttp1Link : public Http1LinkTest {};

// ---- invalid responses ------------------------------------------------------------------------

TEST_F(BrokenHttp1Link, RejectsHeadsThatAreNotHttp) {
  const std::string ok = "HTTP/1.1 200 OK\r\n";
  const std::string responses[] = {
      "garbage\r\n\r\n",
      "HTTP/2.0 200 OK\r\n\r\n",
      "HTTP/1.1 99 X\r\n\r\n",
      "HTTP/1.1 1000 X\r\n\r\n",
      "HTTP/1.1 2OO X\r\n\r\n",
      "HTTP/1.1 200 OK\nContent-Length: 0\n\n",
      ok + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\nhello",
      ok + "Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello",
      ok + "Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
      ok + "Content-Length: -1\r\n\r\n",
      ok + "Transfer-Encoding: gzip\r\n\r\n",
      ok + "A: b\r\n c\r\n\r\n",
      ok + std::string("A: b\0c\r\n\r\n", 10),
      ok + "A: b\rc\r\n\r\n",
      ok + "A : b\r\n\r\n",
      ok + "A: " + std::string(70 * 1024, 'x') + "\r\n\r\n",
      ok +
          [] {
            std::string many;
            for (int i = 0; i < 5000; ++i) many += "A: b\r\n";
            return many;
          }() +
          "\r\n",
      "HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n",
      "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n",
      [] {
        std::string endless;
        for (int i = 0; i < 100; ++i) endless += "HTTP/1.1 102 Processing\r\n\r\n";
        return endless;
      }(),
  };
  for (const auto& response : responses) {
    EXPECT_EQ(fault_of(response), Fault::backend_protocol) << response.substr(0, 200);
  }
}

TEST_F(BrokenHttp1Link, DetectsATruncatedResponse) {
  const std::string ok = "HTTP/1.1 200 OK\r\n";
  const std::string responses[] = {
      "",
      "HTTP/1.1 200 OK\r\nContent-Le",
      "HTTP/1.1 103 Early Hints\r\n\r\n",
      ok + "Content-Length: 5\r\n\r\n",
      ok + "Content-Length: 5\r\n\r\nhell",
      ok + "Transfer-Encoding: chunked\r\n\r\n",
      ok + "Transfer-Encoding: chunked\r\n\r\n5\r\nhel",
      ok + "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
      ok + "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n",
      ok + "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nx: 1\r\n",
  };
  for (const auto& response : responses) {
    EXPECT_EQ(fault_of(response), Fault::backend_closed) << response;
  }
}

TEST_F(BrokenHttp1Link, RejectsMalformedChunks) {
  for (const std::string_view chunks :
       {"x\r\n", "5 \r\nhello\r\n0\r\n\r\n", "5\r\nhelloX", "5\nhello", "-1\r\n",
        "fffffffffffffffff\r\n", "0\r\nContent-Length\r\n\r\n"}) {
    EXPECT_EQ(
        fault_of("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + std::string(chunks)),
        Fault::backend_protocol)
        << chunks;
  }
}

TEST_F(BrokenHttp1Link, DoesNotReuseALinkWithBytesAfterTheResponse) {
  struct Case {
    std::string_view answer;
    std::string_view method;
  };
  const Case cases[] = {
      {"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhiHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
       "GET"},
      {"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\nx", "GET"},
      {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n\r\n", "GET"},
      {"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nbody", "HEAD"},
      {"HTTP/1.1 204 No Content\r\n\r\nbody", "GET"},
      {"HTTP/1.1 304 Not Modified\r\nContent-Length: 4\r\n\r\nbody", "GET"},
  };
  for (const auto& [answer, method] : cases) {
    connect();
    const auto exchange = answered(answer, method);
    EXPECT_EQ(exchange->error(), nullptr);
    EXPECT_EQ(link->available_capacity(), 0u) << answer;
  }
}

TEST_F(BrokenHttp1Link, DetectsUnsolicitedBytesOnAnIdleLink) {
  connect();
  answered("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
  EXPECT_TRUE(link->alive(false));
  WakeCounter wakes;
  link->on_idle_close(&wakes.waiter);

  backend->send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");

  EXPECT_TRUE(eventually(loop, [&] { return wakes.count > 0; }));
  EXPECT_FALSE(link->alive(false));
}

TEST_F(BrokenHttp1Link, DetectsTheCloseOfAnIdleLink) {
  connect();
  answered("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
  WakeCounter wakes;
  link->on_idle_close(&wakes.waiter);
  EXPECT_TRUE(link->alive(true));

  backend->close();

  EXPECT_FALSE(link->alive(true));
  EXPECT_TRUE(eventually(loop, [&] { return wakes.count > 0; }));
  EXPECT_FALSE(link->alive(false));
}

TEST_F(BrokenHttp1Link, DoesNotReuseALinkThatTheBackendCloses) {
  connect();
  answered("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n");
  EXPECT_EQ(link->available_capacity(), 0u);

  connect();
  answered("HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n");
  EXPECT_EQ(link->available_capacity(), 0u);
}

TEST_F(BrokenHttp1Link, IsNotReusedAfterARefusalByTheBackendsParser) {
  for (const std::string_view status : {"400 Bad Request", "414 URI Too Long", "431 Too Large"}) {
    connect();
    answered("HTTP/1.1 " + std::string(status) + "\r\nContent-Length: 0\r\n\r\n");
    EXPECT_EQ(link->available_capacity(), 0u) << status;

    connect();
    answered("HTTP/1.1 " + std::string(status) +
             "\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}");
    EXPECT_EQ(link->available_capacity(), 1u) << status << " by its API";
  }
}

// ---- broken links and failed requests ----------------------------------------------------------

TEST_F(BrokenHttp1Link, ReportsAnIdleCloseRaceOnAReusedLink) {
  connect();
  answered("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
  for (const bool orderly : {true, false}) {
    connect();
    answered("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    orderly ? backend->close() : backend->reset();
    Request request = post("again");
    Exchange exchange;
    start(request, exchange);

    ASSERT_TRUE(ends(exchange));
    EXPECT_TRUE(exchange.failed(Fault::backend_closed));
    EXPECT_EQ(exchange.error()->side, Side::backend);
    EXPECT_TRUE(exchange.error()->idle_close_race);
    EXPECT_EQ(link->available_capacity(), 0u);
  }
}

TEST_F(BrokenHttp1Link, TakesNo408OfAnIdleConnectionForTheAnswerToTheNextRequest) {
  const std::string unasked =
      "HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
  connect();
  EXPECT_EQ(answered(unasked)->status(), 408) << "to the first request of a connection it is one";
  connect();
  answered("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
  EXPECT_EQ(answered("HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n")->status(), 408)
      << "and of one that is kept";

  connect();
  answered("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
  const auto exchange = answered(unasked);

  EXPECT_TRUE(exchange->failed(Fault::backend_closed));
  EXPECT_TRUE(exchange->error()->idle_close_race);
  EXPECT_EQ(link->available_capacity(), 0u);
}

TEST_F(BrokenHttp1Link, ReportsNoIdleCloseRaceOnTheFirstRequest) {
  EXPECT_EQ(fault_of(""), Fault::backend_closed);  // not an idle close race
}

TEST_F(BrokenHttp1Link, ReportsNoIdleCloseRaceAfterResponseBytes) {
  for (const std::string_view begun : {"HTTP/1.1 2", "HTTP/1.1 103 Early Hints\r\n\r\n"}) {
    connect();
    answered("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    Request request = get();
    Exchange exchange;
    start(request, exchange);
    backend->send(begun);
    drain_loop(loop);
    backend->close();

    ASSERT_TRUE(ends(exchange));
    EXPECT_FALSE(exchange.error()->idle_close_race);
  }
}

TEST_F(BrokenHttp1Link, StaysReusableWhenTheBodyFailsBeforeSending) {
  connect();
  auto feed = std::make_shared<BodyFeed>(loop);
  feed->fail({.fault = Fault::bad_request, .side = Side::client});
  Request request = post(feed);
  Exchange exchange;
  start(request, exchange);

  ASSERT_TRUE(ends(exchange));
  EXPECT_TRUE(exchange.failed(Fault::bad_request));
  EXPECT_EQ(link->available_capacity(), 1u);
  drain_loop(loop);
  EXPECT_EQ(backend->seen(), "");
}

TEST_F(BrokenHttp1Link, IsUnusableWhenTheBodyFailsWhileSending) {
  connect();
  auto feed = std::make_shared<BodyFeed>(loop);
  feed->push("some");
  Request request = post(feed);
  Exchange exchange;
  start(request, exchange);
  backend->read_to("some\r\n");

  feed->fail({.fault = Fault::client_gone, .side = Side::client});

  ASSERT_TRUE(ends(exchange));
  EXPECT_TRUE(exchange.failed(Fault::client_gone));
  EXPECT_EQ(link->available_capacity(), 0u);
  link.reset();
  EXPECT_EQ(backend->read_to_end(), "");  // and no last chunk
}

TEST_F(BrokenHttp1Link, IsNotReusedAfterAnEarlyResponse) {
  connect();
  auto feed = std::make_shared<BodyFeed>(loop);
  feed->push("some");
  Request request = post(feed);
  Exchange exchange;
  start(request, exchange);
  backend->read_to("some\r\n");

  backend->send("HTTP/1.1 401 No\r\nContent-Length: 2\r\n\r\nno");

  ASSERT_TRUE(ends(exchange));
  EXPECT_EQ(exchange.status(), 401);
  EXPECT_EQ(exchange.body.bytes, "no");
  EXPECT_EQ(link->available_capacity(), 0u);
}

TEST_F(BrokenHttp1Link, IsNotReusedWhenTheBodyFailsAfterTheResponse) {
  connect();
  auto feed = std::make_shared<BodyFeed>(loop);
  feed->push("some");
  Request request = post(feed);
  Exchange exchange;
  exchange.collects = false;
  start(request, exchange);
  backend->read_to("some\r\n");
  backend->send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi");
  ASSERT_TRUE(eventually(loop, [&] { return exchange.head.has_value(); }));

  // The upload ends incomplete while the whole response is still to be read.
  feed->fail({.fault = Fault::bad_request, .side = Side::client});
  drain_loop(loop);
  Collected body;
  loop.spawn(collect(*(*exchange.head)->body, body));
  ASSERT_TRUE(body.done);
  EXPECT_EQ(body.bytes, "hi");
  (*exchange.head)->body.reset();

  EXPECT_EQ(link->available_capacity(), 0u);
}

TEST_F(BrokenHttp1Link, ReadsTheResponseOfABackendThatStoppedReading) {
  connect(16 * 1024);
  auto feed = std::make_shared<BodyFeed>(loop);
  for (int i = 0; i < 100; ++i) feed->push(std::string(16'384, 'x'));
  Request request = post(feed);
  Exchange exchange;
  start(request, exchange);
  backend->read_head();

  backend->send("HTTP/1.1 413 Too Much\r\nConnection: close\r\nContent-Length: 2\r\n\r\nno");
  backend->finish_sending();

  ASSERT_TRUE(ends(exchange));
  EXPECT_EQ(exchange.status(), 413);
  EXPECT_EQ(exchange.body.bytes, "no");
  EXPECT_EQ(link->available_capacity(), 0u);
}

TEST_F(BrokenHttp1Link, ClosesWhenTheBodyIsDroppedEarly) {
  connect();
  Request request = get();
  Exchange exchange;
  exchange.collects = false;
  start(request, exchange);
  backend->read_head();
  backend->send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n");
  ASSERT_TRUE(eventually(loop, [&] { return exchange.head.has_value(); }));

  (*exchange.head)->body.reset();

  EXPECT_EQ(link->available_capacity(), 0u);
  link.reset();
  EXPECT_TRUE(backend->sees_end());
}

TEST_F(BrokenHttp1Link, ClosesWhenTheRequestIsDropped) {
  connect();
  Request request = get();
  Exchange exchange;
  {
    auto sending = run(*link, request, exchange);
    backend->read_head();
    EXPECT_FALSE(sending.ready());
  }
  EXPECT_EQ(link->available_capacity(), 0u);

  link.reset();

  EXPECT_TRUE(backend->sees_end());
}

}  // namespace
}  // namespace evenkeel
