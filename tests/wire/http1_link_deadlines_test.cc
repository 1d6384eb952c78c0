// How long a backend connection of HTTP/1 waits.
#include <gtest/gtest.h>

#include <string>

#include "evenkeel/wire/link_body.h"
#include "wire/http1_link_test.h"

namespace evenkeel {
namespace {

using namespace std::chrono_literals;

class Http1LinkDeadlines : public Http1LinkTest {
 protected:
  /// Sends bytes for more than `options.idle_timeout`, then no more.
  void expect_timeout_after_the_last_byte(BodyFeed& feed, const Exchange& exchange) {
    const Instant began = Clock::now();
    while (Clock::now() - began < 3 * options.idle_timeout) {
      feed.push("x");
      EXPECT_FALSE(eventually(loop, [&] { return exchange.error() != nullptr; }, 20ms));
    }
    ASSERT_TRUE(ends(exchange));
    EXPECT_TRUE(exchange.failed(Fault::idle_timeout));
  }
};

// ---- deadlines ---------------------------------------------------------------------------------

TEST_F(Http1LinkDeadlines, DoesNotBlameABackendThatTiresOfAPausedUpload) {
  for (const bool whole : {false, true}) {
    connect();
    auto feed = new_feed();
    feed->length = whole ? 1 : 2;
    Request request{.method = "POST",
                    .authority = "a",
                    .path = "/",
                    .body = std::make_unique<ScriptedBody>(feed)};
    feed->push("x");
    if (whole) feed->end();
    Exchange exchange;
    start(request, exchange);
    backend->read_head();
    const Instant until = Clock::now() + 150ms;
    eventually(loop, [&] { return Clock::now() >= until; }, 150ms);
    backend->finish_sending();

    ASSERT_TRUE(ends(exchange));
    EXPECT_TRUE(exchange.failed(Fault::backend_closed));
    EXPECT_EQ(exchange.error()->side, Side::backend) << "it may be sent to another one";
    EXPECT_EQ(exchange.error()->awaited_client, !whole);
  }
}

TEST_F(Http1LinkDeadlines, CountsARequestWhileItsBackendAwaitsTheClient) {
  options.idle_timeout = 1h;
  connect(4096);
  SharedCount waiting;
  auto feed = new_feed();
  Request request = post(feed);
  request.awaiting_clients = &waiting;
  feed->push("x");
  Exchange exchange;
  auto sending = run(*link, request, exchange);
  EXPECT_TRUE(eventually(loop, [&] { return waiting.value() == 1; }));

  feed->push(std::string(4 * 1024 * 1024, 'x'));  // the backend does not read
  EXPECT_TRUE(eventually(loop, [&] { return waiting.value() == 0; }));
  drain_loop(loop);
  EXPECT_EQ(waiting.value(), 0u);

  while (waiting.value() == 0) backend->read_bytes(64 * 1024);
  sending.drop();
  link.reset();
  EXPECT_EQ(waiting.value(), 0u);
}

TEST_F(Http1LinkDeadlines, BlamesABackendThatClosesWithinALongUpload) {
  bool awaited_client = true;
  for (int i = 0; i < 5 && awaited_client; ++i) {  // on a busy machine it may wait for long
    connect();
    auto feed = new_feed();
    Request request = get();
    request.method = "POST";
    request.body = std::make_unique<ScriptedBody>(feed);
    feed->push("x");
    Exchange exchange;
    start(request, exchange);
    backend->read_head();
    EXPECT_FALSE(eventually(loop, [] { return false; }, 150ms));
    feed->push("y");
    backend->read_to("y\r\n");
    backend->finish_sending();

    ASSERT_TRUE(ends(exchange));
    EXPECT_TRUE(exchange.failed(Fault::backend_closed));
    awaited_client = exchange.error()->awaited_client;
  }
  EXPECT_FALSE(awaited_client);
}

TEST_F(Http1LinkDeadlines, DoesNotBlameABackendThatTiresOfASlowUpload) {
  for (const bool resets : {false, true}) {
    connect();
    auto feed = new_feed();
    Request request = post(feed);
    feed->push("x");
    Exchange exchange;
    start(request, exchange);
    backend->read_head();
    const Instant began = Clock::now();
    while (Clock::now() - began < 700ms) {
      eventually(loop, [] { return false; }, 20ms);
      feed->push("y");
    }
    resets ? backend->reset() : backend->finish_sending();

    ASSERT_TRUE(ends(exchange));
    EXPECT_TRUE(exchange.failed(Fault::backend_closed));
    EXPECT_TRUE(exchange.error()->awaited_client);
  }
}

TEST_F(Http1LinkDeadlines, NotesThatAnIdleResponseWaitsForItsClient) {
  options.idle_timeout = 150ms;
  for (const bool whole : {false, true}) {
    connect();
    auto feed = new_feed();
    Request request = post(feed);
    feed->push("x");
    if (whole) feed->end();
    Exchange exchange;
    exchange.collects = false;
    start(request, exchange);
    backend->read_head();
    backend->send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n");

    ASSERT_TRUE(eventually(loop, [&] { return exchange.status() == 200; }));
    Body& body = *(*exchange.head)->body;
    auto collecting = collect(body, exchange.body);

    ASSERT_TRUE(ends(exchange));
    EXPECT_TRUE(exchange.failed(Fault::idle_timeout));
    EXPECT_EQ(dynamic_cast<LinkBody&>(body).awaited_client(), !whole);
  }
}

TEST_F(Http1LinkDeadlines, NotesThatABackendTiredOfAPausedReader) {
  for (const bool pauses : {false, true}) {
    connect();
    Request request = get();
    Exchange exchange;
    exchange.collects = false;
    start(request, exchange);
    backend->read_head();
    backend->send("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc");
    ASSERT_TRUE(eventually(loop, [&] { return exchange.status() == 200; }));
    Body& body = *(*exchange.head)->body;
    auto first = body.read();
    ASSERT_TRUE(eventually(loop, [&] { return first.ready(); }));
    ASSERT_TRUE(first.take().ok());

    Task<Result<Chunk>> next;
    if (!pauses) next = body.read();
    eventually(loop, [] { return false; }, 150ms);
    backend->finish_sending();
    drain_loop(loop);
    if (pauses) next = body.read();

    ASSERT_TRUE(eventually(loop, [&] { return next.ready(); }));
    auto broken = next.take();
    ASSERT_FALSE(broken.ok());
    EXPECT_EQ(broken.error().fault, Fault::backend_closed);
    EXPECT_EQ(dynamic_cast<LinkBody&>(body).awaited_client(), pauses);
  }
}

TEST_F(Http1LinkDeadlines, TimesOutWithoutAResponse) {
  options.first_byte_timeout = 50ms;
  connect();
  Request request = get();
  Exchange exchange;
  start(request, exchange);

  ASSERT_TRUE(ends(exchange));
  EXPECT_TRUE(exchange.failed(Fault::first_byte_timeout));
  EXPECT_EQ(link->available_capacity(), 0u);
}

TEST_F(Http1LinkDeadlines, DoesNotExtendTheFirstByteTimeoutByteByByte) {
  options.first_byte_timeout = 200ms;
  connect();
  Request request = get();
  Exchange exchange;
  start(request, exchange);
  backend->send("HTTP/1.1 200 OK\r\nA: ");
  const Instant began = Clock::now();

  while (exchange.error() == nullptr &&
         Clock::now() - began < 5s) {  // a byte every few milliseconds
    std::string_view more = "x";
    backend->send_some(more);
    eventually(loop, [&] { return exchange.error() != nullptr; }, 5ms);
  }

  EXPECT_TRUE(exchange.failed(Fault::first_byte_timeout));
}

TEST_F(Http1LinkDeadlines, MeasuresTheFirstByteTimeoutFromTheRequestsEnd) {
  options.first_byte_timeout = 100ms;
  connect();
  auto feed = new_feed();
  Request request = post(feed);
  Exchange exchange;
  start(request, exchange);
  backend->read_head();

  EXPECT_FALSE(eventually(loop, [&] { return exchange.error() != nullptr; }, 300ms));
  feed->end();

  ASSERT_TRUE(ends(exchange));
  EXPECT_TRUE(exchange.failed(Fault::first_byte_timeout));
}

TEST_F(Http1LinkDeadlines, TimesOutWithoutTheFirstByteOfAStream) {
  for (const char* head :
       {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "HTTP/1.1 200 OK\r\n\r\n"}) {
    options.first_byte_timeout = 50ms;
    connect();
    const auto exchange = answered(head);

    EXPECT_TRUE(exchange->failed(Fault::first_byte_timeout)) << head;
    EXPECT_EQ(exchange->status(), 200);
    EXPECT_EQ(link->available_capacity(), 0u);
  }
}

TEST_F(Http1LinkDeadlines, MeasuresTheFirstByteOfAStreamFromTheRequestsEnd) {
  options.first_byte_timeout = 300ms;
  connect();
  Request request = get();
  Exchange exchange;
  start(request, exchange);
  const Instant began = Clock::now();
  eventually(loop, [] { return false; }, 200ms);

  backend->send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");

  ASSERT_TRUE(ends(exchange));
  EXPECT_TRUE(exchange.failed(Fault::first_byte_timeout));
  EXPECT_LT(Clock::now() - began, 480ms) << "the head does not begin it again";
}

TEST_F(Http1LinkDeadlines, AppliesTheIdleTimeoutOnlyAfterTheFirstByteOfAStream) {
  options.idle_timeout = 50ms;
  connect();
  Request request = get();
  Exchange exchange;
  start(request, exchange);
  backend->send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");

  EXPECT_FALSE(eventually(loop, [&] { return exchange.error() != nullptr; }, 200ms));
  backend->send("1\r\nx\r\n");

  ASSERT_TRUE(ends(exchange));
  EXPECT_TRUE(exchange.failed(Fault::idle_timeout));
  EXPECT_EQ(exchange.body.bytes, "x");
}

TEST_F(Http1LinkDeadlines, AppliesTheFirstByteTimeoutUntilTheReaderHasTheBeginning) {
  options.first_byte_timeout = 300ms;
  options.idle_timeout = 1h;
  connect();
  Request request = get();
  Exchange exchange{.collects = false};
  start(request, exchange);
  backend->send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n:\n\r\n");
  ASSERT_TRUE(eventually(loop, [&] { return exchange.status() == 200; }));
  Body& body = *(*exchange.head)->body;
  auto comment = body.read();
  ASSERT_TRUE(eventually(loop, [&] { return comment.ready(); }));
  EXPECT_EQ(comment.take()->bytes, ":\n");

  dynamic_cast<LinkBody&>(body).await_beginning();
  auto next = body.read();

  ASSERT_TRUE(eventually(loop, [&] { return next.ready(); }));
  auto failed = next.take();
  ASSERT_FALSE(failed.ok());
  EXPECT_EQ(failed.error().fault, Fault::first_byte_timeout);
}

TEST_F(Http1LinkDeadlines, TimesOutOnAStalledResponse) {
  options.idle_timeout = 50ms;
  connect();
  const auto exchange = answered("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf");

  EXPECT_TRUE(exchange->failed(Fault::idle_timeout));
  EXPECT_EQ(exchange->body.bytes, "half");
}

TEST_F(Http1LinkDeadlines, DoesNotTimeOutWhileTheBackendReadsTheRequest) {
  options.idle_timeout = 400ms;
  connect();
  auto feed = new_feed();
  Request request = post(feed);
  Exchange exchange;
  start(request, exchange);
  backend->send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");

  expect_timeout_after_the_last_byte(*feed, exchange);
}

TEST_F(Http1LinkDeadlines, DoesNotTimeOutATunnelInWhichTheClientSends) {
  options.idle_timeout = 400ms;
  connect();
  auto feed = new_feed();
  Request request = get("/ws");
  request.upgrade = "websocket";
  request.fields.add("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ==");
  request.body = std::make_unique<ScriptedBody>(feed);
  Exchange exchange;
  start(request, exchange);
  backend->send(
      "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
      "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n");

  expect_timeout_after_the_last_byte(*feed, exchange);
}

// ---- suspected backends ------------------------------------------------------------------------

TEST_F(Http1LinkDeadlines, ToleratesLessSilenceWhileItIsSuspected) {
  connect();
  Request request = get();
  Exchange exchange;
  start(request, exchange);
  backend->read_head();

  link->suspect(50ms);

  ASSERT_TRUE(ends(exchange));
  EXPECT_TRUE(exchange.failed(Fault::first_byte_timeout));
}

TEST_F(Http1LinkDeadlines, ToleratesLessSilenceWithinAResponseWhileItIsSuspected) {
  connect();
  Request request = get();
  Exchange exchange;
  start(request, exchange);
  backend->read_head();
  backend->send("HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf");
  ASSERT_TRUE(eventually(loop, [&] { return exchange.body.bytes == "half"; }));

  link->suspect(50ms);

  ASSERT_TRUE(ends(exchange));
  EXPECT_TRUE(exchange.failed(Fault::idle_timeout));
}

TEST_F(Http1LinkDeadlines, ToleratesSilenceAgainWhenItIsNotSuspectedAnyMore) {
  connect();
  Request request = get();
  Exchange exchange;
  start(request, exchange);
  backend->read_head();
  link->suspect(100ms);
  link->suspect(Duration::max());

  auto sleeping = [](Loop& on) -> Task<void> { co_await on.sleep_for(300ms); }(loop);
  ASSERT_TRUE(eventually(loop, [&] { return sleeping.ready(); }));
  backend->send("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi");

  ASSERT_TRUE(ends(exchange));
  EXPECT_EQ(exchange.status(), 200);
}

}  // namespace
}  // namespace evenkeel
