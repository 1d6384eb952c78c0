// Backend connections of HTTP/1: requests sent and responses read.
#include <gtest/gtest.h>

#include <string>

#include "evenkeel/wire/link.h"
#include "wire/peer.h"
#include "wire/response_buffer.h"
#include "wire/scripted_body.h"

namespace evenkeel {
namespace {

using namespace std::chrono_literals;

/// The progress of an exchange on a link.
struct Exchange {
  std::optional<Result<Response>> head;
  Collected body;
  bool collects = true;

  int status() const { return head && *head ? (*head)->status : 0; }
  const Error* error() const {
    if (head && !*head) return &head->error();
    return body.error ? &*body.error : nullptr;
  }
  bool failed(Fault fault) const { return error() != nullptr && error()->fault == fault; }
};

Task<void> run(Link& link, Request& request, Exchange& exchange) {
  auto head = co_await link.send(request);
  exchange.head.emplace(std::move(head));
  if (!*exchange.head || !exchange.collects) co_return;
  co_await collect(*(*exchange.head)->body, exchange.body);
  (*exchange.head)->body.reset();
}

class InterimRecorder final : public InterimHandler {
 public:
  void interim(int status, const Fields& fields) override {
    received += std::to_string(status) + " " + std::string(fields.value("link").value_or("")) + ";";
  }
  std::string received;
};

struct WakeCounter {
  void add() { ++count; }
  int count = 0;
  MethodWaiter<&WakeCounter::add> waiter{*this};
};

class Http1Link : public testing::Test {
 protected:
  ~Http1Link() override { loop.drop_spawned(); }

  void connect(int buffer_bytes = 0) {
    const SocketPair ends = connected_pair(buffer_bytes);
    link = make_http1_link(std::make_unique<Socket>(loop, ends.ours), options);
    backend = std::make_unique<Peer>(loop, ends.theirs);
  }
  static Request get(std::string_view path = "/") {
    return Request{.method = "GET", .authority = "a", .path = path};
  }
  static Request post(std::string body) {
    return Request{
        .method = "POST", .authority = "a", .path = "/", .body = make_body(std::move(body))};
  }
  void start(Request& request, Exchange& exchange) { loop.spawn(run(*link, request, exchange)); }
  bool ends(const Exchange& exchange) {
    return eventually(loop, [&] { return exchange.error() != nullptr || exchange.body.done; });
  }
  /// A whole exchange with the given response bytes.
  std::unique_ptr<Exchange> answered(std::string_view bytes, std::string_view method = "GET") {
    Request request = get();
    request.method = method;
    auto exchange = std::make_unique<Exchange>();
    start(request, *exchange);
    backend->read_head();
    backend->send(bytes);
    EXPECT_TRUE(ends(*exchange)) << bytes;
    return exchange;
  }
  /// The fault that these response bytes cause, on a link of their own; the backend then closes.
  std::optional<Fault> fault_of(std::string_view bytes, std::string_view method = "GET") {
    connect();
    Request request = get();
    request.method = method;
    Exchange exchange;
    start(request, exchange);
    backend->read_head();
    backend->send(bytes);
    backend->finish_sending();
    EXPECT_TRUE(ends(exchange)) << bytes;
    EXPECT_EQ(link->available_capacity(), 0u)
        << "a link that failed may not be used again: " << bytes;
    if (exchange.error() == nullptr) return std::nullopt;
    EXPECT_EQ(exchange.error()->side, Side::backend);
    EXPECT_FALSE(exchange.error()->idle_close_race);
    return exchange.error()->fault;
  }

  Loop loop;
  LinkOptions options;
  std::unique_ptr<Link> link;
  std::unique_ptr<Peer> backend;
};

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
  EXPECT_EQ(ResponseBudget::taken(), before + Block::large);

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
  Request request = get();
  request.method = "POST";
  request.body = std::make_unique<ScriptedBody>(feed);
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
  Request request = get();
  request.method = "POST";
  request.body = std::make_unique<ScriptedBody>(feed);
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
  Request request = get();
  request.method = "POST";
  request.body = std::make_unique<ScriptedBody>(feed);
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

// ---- invalid responses ------------------------------------------------------------------------

TEST_F(Http1Link, RejectsHeadsThatAreNotHttp) {
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

TEST_F(Http1Link, DetectsATruncatedResponse) {
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

TEST_F(Http1Link, RejectsMalformedChunks) {
  for (const std::string_view chunks :
       {"x\r\n", "5 \r\nhello\r\n0\r\n\r\n", "5\r\nhelloX", "5\nhello", "-1\r\n",
        "fffffffffffffffff\r\n", "0\r\nContent-Length\r\n\r\n"}) {
    EXPECT_EQ(
        fault_of("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + std::string(chunks)),
        Fault::backend_protocol)
        << chunks;
  }
}

TEST_F(Http1Link, DoesNotReuseALinkWithBytesAfterTheResponse) {
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

TEST_F(Http1Link, DetectsUnsolicitedBytesOnAnIdleLink) {
  connect();
  answered("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
  EXPECT_TRUE(link->alive(false));
  WakeCounter wakes;
  link->on_idle_close(&wakes.waiter);

  backend->send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");

  EXPECT_TRUE(eventually(loop, [&] { return wakes.count > 0; }));
  EXPECT_FALSE(link->alive(false));
}

TEST_F(Http1Link, DetectsTheCloseOfAnIdleLink) {
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

TEST_F(Http1Link, DoesNotReuseALinkThatTheBackendCloses) {
  connect();
  answered("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n");
  EXPECT_EQ(link->available_capacity(), 0u);

  connect();
  answered("HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n");
  EXPECT_EQ(link->available_capacity(), 0u);
}

TEST_F(Http1Link, IsNotReusedAfterARefusalByTheBackendsParser) {
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

// ---- deadlines ---------------------------------------------------------------------------------

TEST_F(Http1Link, TimesOutWithoutAResponse) {
  options.first_byte_timeout = 50ms;
  connect();
  Request request = get();
  Exchange exchange;
  start(request, exchange);

  ASSERT_TRUE(ends(exchange));
  EXPECT_TRUE(exchange.failed(Fault::first_byte_timeout));
  EXPECT_EQ(link->available_capacity(), 0u);
}

TEST_F(Http1Link, DoesNotExtendTheFirstByteTimeoutByteByByte) {
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

TEST_F(Http1Link, MeasuresTheFirstByteTimeoutFromTheRequestsEnd) {
  options.first_byte_timeout = 100ms;
  connect();
  auto feed = std::make_shared<BodyFeed>(loop);
  Request request = get();
  request.method = "POST";
  request.body = std::make_unique<ScriptedBody>(feed);
  Exchange exchange;
  start(request, exchange);
  backend->read_head();

  EXPECT_FALSE(eventually(loop, [&] { return exchange.error() != nullptr; }, 300ms));
  feed->end();

  ASSERT_TRUE(ends(exchange));
  EXPECT_TRUE(exchange.failed(Fault::first_byte_timeout));
}

TEST_F(Http1Link, TimesOutWithoutTheFirstByteOfAStream) {
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

TEST_F(Http1Link, MeasuresTheFirstByteOfAStreamFromTheRequestsEnd) {
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

TEST_F(Http1Link, AppliesTheIdleTimeoutOnlyAfterTheFirstByteOfAStream) {
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

TEST_F(Http1Link, TimesOutOnAStalledResponse) {
  options.idle_timeout = 50ms;
  connect();
  const auto exchange = answered("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf");

  EXPECT_TRUE(exchange->failed(Fault::idle_timeout));
  EXPECT_EQ(exchange->body.bytes, "half");
}

TEST_F(Http1Link, DoesNotTimeOutWhileTheBackendReadsTheRequest) {
  options.idle_timeout = 150ms;
  connect();
  auto feed = std::make_shared<BodyFeed>(loop);
  Request request = get();
  request.method = "POST";
  request.body = std::make_unique<ScriptedBody>(feed);
  Exchange exchange;
  start(request, exchange);
  backend->send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
  const Instant began = Clock::now();

  while (Clock::now() - began < 500ms) {
    feed->push("x");
    EXPECT_FALSE(eventually(loop, [&] { return exchange.error() != nullptr; }, 20ms));
  }

  ASSERT_TRUE(ends(exchange));
  EXPECT_TRUE(exchange.failed(Fault::idle_timeout));
}

// ---- broken links and failed requests ----------------------------------------------------------

TEST_F(Http1Link, ReportsAnIdleCloseRaceOnAReusedLink) {
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

TEST_F(Http1Link, ReportsNoIdleCloseRaceOnTheFirstRequest) {
  EXPECT_EQ(fault_of(""), Fault::backend_closed);  // not an idle close race
}

TEST_F(Http1Link, ReportsNoIdleCloseRaceAfterResponseBytes) {
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

TEST_F(Http1Link, StaysReusableWhenTheBodyFailsBeforeSending) {
  connect();
  auto feed = std::make_shared<BodyFeed>(loop);
  feed->fail({.fault = Fault::bad_request, .side = Side::client});
  Request request = get();
  request.method = "POST";
  request.body = std::make_unique<ScriptedBody>(feed);
  Exchange exchange;
  start(request, exchange);

  ASSERT_TRUE(ends(exchange));
  EXPECT_TRUE(exchange.failed(Fault::bad_request));
  EXPECT_EQ(link->available_capacity(), 1u);
  drain_loop(loop);
  EXPECT_EQ(backend->seen(), "");
}

TEST_F(Http1Link, IsUnusableWhenTheBodyFailsWhileSending) {
  connect();
  auto feed = std::make_shared<BodyFeed>(loop);
  feed->push("some");
  Request request = get();
  request.method = "POST";
  request.body = std::make_unique<ScriptedBody>(feed);
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

TEST_F(Http1Link, IsNotReusedAfterAnEarlyResponse) {
  connect();
  auto feed = std::make_shared<BodyFeed>(loop);
  feed->push("some");
  Request request = get();
  request.method = "POST";
  request.body = std::make_unique<ScriptedBody>(feed);
  Exchange exchange;
  start(request, exchange);
  backend->read_to("some\r\n");

  backend->send("HTTP/1.1 401 No\r\nContent-Length: 2\r\n\r\nno");

  ASSERT_TRUE(ends(exchange));
  EXPECT_EQ(exchange.status(), 401);
  EXPECT_EQ(exchange.body.bytes, "no");
  EXPECT_EQ(link->available_capacity(), 0u);
}

TEST_F(Http1Link, IsNotReusedWhenTheBodyFailsAfterTheResponse) {
  connect();
  auto feed = std::make_shared<BodyFeed>(loop);
  feed->push("some");
  Request request = get();
  request.method = "POST";
  request.body = std::make_unique<ScriptedBody>(feed);
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

TEST_F(Http1Link, ReadsTheResponseOfABackendThatStoppedReading) {
  connect(16 * 1024);
  auto feed = std::make_shared<BodyFeed>(loop);
  for (int i = 0; i < 100; ++i) feed->push(std::string(16'384, 'x'));
  Request request = get();
  request.method = "POST";
  request.body = std::make_unique<ScriptedBody>(feed);
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

TEST_F(Http1Link, ClosesWhenTheBodyIsDroppedEarly) {
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

TEST_F(Http1Link, ClosesWhenTheRequestIsDropped) {
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

// ---- tunnels -----------------------------------------------------------------------------------

TEST_F(Http1Link, TunnelsInBothDirectionsIncludingHalfCloses) {
  connect();
  auto feed = std::make_shared<BodyFeed>(loop);
  Request request = get("/ws");
  request.upgrade = "websocket";
  request.body = std::make_unique<ScriptedBody>(feed);
  Exchange exchange;
  start(request, exchange);
  EXPECT_EQ(backend->read_head(),
            "GET /ws HTTP/1.1\r\nhost: a\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n");
  EXPECT_EQ(feed->reads, 0);

  backend->send(
      "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\nhello");
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

TEST_F(Http1Link, DoesNotTimeOutATunnelInWhichTheClientSends) {
  options.idle_timeout = 150ms;
  connect();
  auto feed = std::make_shared<BodyFeed>(loop);
  Request request = get("/ws");
  request.upgrade = "websocket";
  request.body = std::make_unique<ScriptedBody>(feed);
  Exchange exchange;
  start(request, exchange);
  backend->send(
      "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n");
  const Instant began = Clock::now();

  while (Clock::now() - began < 500ms) {
    feed->push("x");
    EXPECT_FALSE(eventually(loop, [&] { return exchange.error() != nullptr; }, 20ms));
  }

  ASSERT_TRUE(ends(exchange));
  EXPECT_TRUE(exchange.failed(Fault::idle_timeout));
}

// ---- suspected backends ------------------------------------------------------------------------

TEST_F(Http1Link, ToleratesLessSilenceWhileItIsSuspected) {
  connect();
  Request request = get();
  Exchange exchange;
  start(request, exchange);
  backend->read_head();

  link->suspect(50ms);

  ASSERT_TRUE(ends(exchange));
  EXPECT_TRUE(exchange.failed(Fault::first_byte_timeout));
}

TEST_F(Http1Link, ToleratesLessSilenceWithinAResponseWhileItIsSuspected) {
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

TEST_F(Http1Link, ToleratesSilenceAgainWhenItIsNotSuspectedAnyMore) {
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
