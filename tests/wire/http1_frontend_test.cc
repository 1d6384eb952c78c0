// Client connections of HTTP/1, with handlers written in place.
#include <gtest/gtest.h>
#include <sys/ioctl.h>

#include <string>
#include <string_view>
#include <vector>

#include "evenkeel/http/status.h"
#include "evenkeel/wire/frontend.h"
#include "wire/peer.h"
#include "wire/scripted_body.h"
#include "wire/test_callbacks.h"

namespace evenkeel {
namespace {

using namespace std::chrono_literals;

/// Responds with the method, path and body of the request.
Task<Result<Response>> echo(Request& request) {
  Collected body;
  if (request.body != nullptr) co_await collect(*request.body, body);
  if (body.error) co_return *body.error;
  std::string text(request.method);
  text.append(" ").append(request.path).append(" ").append(body.bytes).append(body.trailers);
  co_return Response{.body = make_body(std::move(text))};
}

Response answer_of(std::string_view text) { return Response{.body = make_body(std::string(text))}; }

/// Ten bytes are announced, and none come.
class BrokenBody final : public Body {
 public:
  Task<Result<Chunk>> read() override {
    return Result<Chunk>(Error{.fault = Fault::backend_closed, .side = Side::backend});
  }
  std::optional<std::uint64_t> length() const override { return 10; }
};

class Http1Frontend : public testing::Test {
 protected:
  Http1Frontend() { callbacks.handler = std::make_shared<FunctionHandler>(echo); }
  ~Http1Frontend() override { loop.drop_spawned(); }

  void answer_with(FunctionHandler::Answer answer) {
    callbacks.handler = std::make_shared<FunctionHandler>(std::move(answer));
  }
  /// Answers with the body that the test feeds.
  void answer_with_body_feed() {
    answer_with([this](Request&) -> Task<Result<Response>> {
      return Result<Response>(Response{.body = std::make_unique<ScriptedBody>(feed)});
    });
  }
  /// A client connected to a frontend.
  std::unique_ptr<Peer> connect(int buffer_bytes = 0) {
    const SocketPair ends = connected_pair(buffer_bytes);
    Endpoint peer = resolve("192.0.2.7", 5555)->front();
    loop.spawn(serve_http1(std::make_unique<Socket>(loop, ends.ours), peer, options, callbacks));
    return std::make_unique<Peer>(loop, ends.theirs);
  }
  /// Everything that a connection sends in response to these bytes.
  std::string answers_to(std::string_view bytes) {
    auto client = connect();
    client->send(bytes);
    return client->read_to_end();
  }
  bool closed(int connections = 1) {
    return eventually(loop, [&] { return callbacks.closed_count == connections; });
  }

  Loop loop;
  ListenerConfig options;
  TestCallbacks callbacks;
  std::shared_ptr<BodyFeed> feed = std::make_shared<BodyFeed>(loop);
};

// ---- consecutive requests --------------------------------------------------------------------

/// Echoes the body; takes the blocks in which it comes if asked to.
class TakingHandler {
 public:
  explicit TakingHandler(bool takes_blocks) : takes_blocks_(takes_blocks) {}
  Task<Result<Response>> operator()(Request& request) {
    std::vector<Block> blocks;
    std::string text;
    bool taken = false;
    for (bool last = false; !last;) {
      auto chunk = co_await request.body->read();
      if (!chunk) co_return std::move(chunk.error());
      last = chunk->last;
      if (takes_blocks_) blocks.push_back(request.body->take_block());
      text += chunk->bytes;  // after its block was taken
      taken = taken || (!blocks.empty() && blocks.back());
      EXPECT_FALSE(taken && request.body->rewind()) << "its taker has the bytes";
    }
    any_taken = any_taken || taken;
    co_return answer_of(text);
  }
  bool any_taken = false;

 private:
  bool takes_blocks_;
};

TEST_F(Http1Frontend, ReadsALongBodyHoweverItIsSplit) {
  constexpr std::size_t length = 300'000;
  std::string body(length, '\0');
  for (std::size_t i = 0; i < length; ++i) body[i] = static_cast<char>('a' + i % 23);
  const std::string message = "POST /long HTTP/1.1\r\nHost: a\r\nContent-Length: 300000\r\n\r\n" +
                              body +
                              "POST /next HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nnext";
  for (const bool takes_blocks : {false, true}) {
    for (const std::size_t piece : {message.size(), std::size_t{1'000}, std::size_t{16'384},
                                    std::size_t{20'000}, std::size_t{150'000}}) {
      TakingHandler handler(takes_blocks);
      answer_with([&](Request& request) { return handler(request); });
      auto client = connect(1 << 20);
      for (std::size_t at = 0; at < message.size(); at += piece) {
        client->send(std::string_view(message).substr(at, piece));
        drain_loop(loop, 1);
      }
      EXPECT_EQ(client->read_message(), "HTTP/1.1 200 OK\r\ncontent-length: 300000\r\n\r\n" + body)
          << piece;
      EXPECT_EQ(client->read_message(), "HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nnext");
      if (piece >= 150'000) {
        EXPECT_EQ(handler.any_taken, takes_blocks);
      }
      EXPECT_FALSE(handler.any_taken && piece == 1'000) << "its blocks are almost empty";
    }
  }
}

TEST_F(Http1Frontend, ServesConsecutiveRequestsOnOneConnection) {
  auto client = connect();

  client->send("GET /1 HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_EQ(client->read_message(), "HTTP/1.1 200 OK\r\ncontent-length: 7\r\n\r\nGET /1 ");
  client->send("POST /2 HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody");
  EXPECT_EQ(client->read_message(), "HTTP/1.1 200 OK\r\ncontent-length: 12\r\n\r\nPOST /2 body");
  EXPECT_FALSE(client->ended());
}

TEST_F(Http1Frontend, AnswersAThousandPipelinedRequestsInOrder) {
  auto client = connect();
  std::string requests;
  for (int i = 0; i < 1000; ++i) {
    const std::string number = std::to_string(i);
    switch (i % 3) {
      case 0: requests += "GET /" + number + " HTTP/1.1\r\nHost: a\r\n\r\n"; break;
      case 1:
        requests += "POST /" + number +
                    " HTTP/1.1\r\nHost: a\r\nContent-Length: " + std::to_string(number.size()) +
                    "\r\n\r\n" + number;
        break;
      default:
        requests += "POST /" + number +
                    " HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n" +
                    "2\r\nyz\r\n0\r\n\r\n";
    }
  }

  client->send(requests);

  for (int i = 0; i < 1000; ++i) {
    const std::string number = std::to_string(i);
    const std::string expected = i % 3 == 0   ? "GET /" + number + " "
                                 : i % 3 == 1 ? "POST /" + number + " " + number
                                              : "POST /" + number + " xyz";
    const std::string message = client->read_message();
    ASSERT_EQ(message.substr(message.find("\r\n\r\n") + 4), expected);
  }
}

TEST_F(Http1Frontend, ProcessesOnePipelinedRequestAtATime) {
  int begun = 0;
  answer_with([&](Request&) -> Task<Result<Response>> {
    ++begun;
    return Result<Response>(Response{.body = std::make_unique<ScriptedBody>(feed)});
  });
  auto client = connect();

  client->send("GET /1 HTTP/1.1\r\nHost: a\r\n\r\nGET /2 HTTP/1.1\r\nHost: a\r\n\r\n");
  feed->push("one");
  EXPECT_EQ(client->read_to("3\r\none\r\n"),
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\none\r\n");
  drain_loop(loop);

  EXPECT_EQ(begun, 1);
  feed->end();
  client->read_to("0\r\n\r\n");
  EXPECT_TRUE(eventually(loop, [&] { return begun == 2; }));
}

TEST_F(Http1Frontend, YieldsToOtherConnectionsWhileAClientKeepsItBusy) {
  struct Other {
    void run() { handled = count; }
    const int& count;
    int handled = 0;
    MethodWaiter<&Other::run> waiter{*this};
  };
  int count = 0;
  Other other{count};
  answer_with([&](Request&) -> Task<Result<Response>> {
    if (++count == 1) loop.wake_soon(other.waiter);
    return Result<Response>(answer_of("x"));
  });
  auto client = connect();
  std::string requests;
  for (int i = 0; i < 500; ++i) requests += "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
  client->send(requests);

  EXPECT_TRUE(eventually(loop, [&] { return count == 500; }));
  EXPECT_GT(other.handled, 0);
  EXPECT_LT(other.handled, 100);
}

TEST_F(Http1Frontend, ParsesTheSameByteByByte) {
  auto client = connect();
  const std::string_view request =
      "\r\nPOST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nx-t: "
      "1\r\n\r\n";

  for (const char c : request) {
    client->send({&c, 1});
    drain_loop(loop, 1);
  }

  EXPECT_EQ(client->read_message(),
            "HTTP/1.1 200 OK\r\ncontent-length: 18\r\n\r\nPOST /x abcx-t: 1\n");
}

TEST_F(Http1Frontend, PassesNoTrailerThatOnlyTrustedProxiesMaySend) {
  const std::vector<std::string> reserved{"X-Tenant"};
  answer_with([&](Request& request) {
    request.info.identity.reserved_fields = &reserved;
    return echo(request);
  });
  auto client = connect();
  const std::string start =
      "POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n";

  client->send(start + "x-t: 1\r\nx-tenant: acme\r\nX_TENANT: acme\r\n\r\n");
  EXPECT_TRUE(client->read_message().ends_with("POST /x x-t: 1\n"));
  client->send(start + "x_tenant: acme\r\n\r\n");
  EXPECT_TRUE(client->read_message().ends_with("POST /x "));
}

TEST_F(Http1Frontend, AcceptsHeadsLargerThanTheFirstBuffer) {
  auto client = connect();
  const std::string large(20000, 'v');
  answer_with([&](Request& request) -> Task<Result<Response>> {
    return Result<Response>(answer_of(request.fields.value("x-large") == large ? "same" : "other"));
  });

  client->send("GET / HTTP/1.1\r\nHost: a\r\nX-Large: " + large + "\r\n\r\n");

  EXPECT_NE(client->read_message().find("same"), std::string::npos);
}

TEST_F(Http1Frontend, PassesLargeBodiesWhole) {
  auto client = connect();
  std::string body(3'000'000, '\0');
  for (std::size_t i = 0; i < body.size(); ++i) body[i] = static_cast<char>('a' + i * 7 / 3 % 26);
  std::string chunked;
  for (std::size_t at = 0; at < body.size(); at += 100'000) {
    chunked += "186a0\r\n" + body.substr(at, 100'000) + "\r\n";
  }

  client->send("POST /l HTTP/1.1\r\nHost: a\r\nContent-Length: 3000000\r\n\r\n" + body +
               "POST /c HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" + chunked +
               "0\r\n\r\n" + "GET /end HTTP/1.1\r\nHost: a\r\n\r\n");

  EXPECT_TRUE(client->read_message().ends_with("POST /l " + body));
  EXPECT_TRUE(client->read_message().ends_with("POST /c " + body));
  EXPECT_TRUE(client->read_message().ends_with("GET /end "));
}

// ---- keep-alive and close ----------------------------------------------------------------------

TEST_F(Http1Frontend, ClosesOnRequest) {
  EXPECT_EQ(answers_to("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"),
            "HTTP/1.1 200 OK\r\ncontent-length: 6\r\nconnection: close\r\n\r\nGET / ");
  EXPECT_TRUE(closed());
}

TEST_F(Http1Frontend, ClosesAfterHttp10WithoutKeepAlive) {
  EXPECT_EQ(answers_to("GET / HTTP/1.0\r\n\r\n"),
            "HTTP/1.1 200 OK\r\ncontent-length: 6\r\nconnection: close\r\n\r\nGET / ");

  auto client = connect();
  client->send("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
  EXPECT_EQ(client->read_message(),
            "HTTP/1.1 200 OK\r\ncontent-length: 6\r\nconnection: keep-alive\r\n\r\nGET / ");
  client->send("GET /2 HTTP/1.0\r\n\r\n");
  EXPECT_TRUE(client->read_to_end().ends_with("GET /2 "));
}

TEST_F(Http1Frontend, DelimitsStreamsForHttp10ByTheEndOfTheConnection) {
  answer_with_body_feed();
  auto client = connect();
  client->send("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
  feed->push("some ");
  feed->push("text");
  feed->end();

  EXPECT_EQ(client->read_to_end(), "HTTP/1.1 200 OK\r\nconnection: close\r\n\r\nsome text");
}

TEST_F(Http1Frontend, ResetsAnUndelimitedStreamThatFails) {
  answer_with_body_feed();
  auto client = connect();
  client->send("GET / HTTP/1.0\r\n\r\n");
  feed->push("some");
  client->read_to("some");
  feed->fail({.fault = Fault::backend_closed, .side = Side::backend});

  EXPECT_TRUE(client->sees_reset());
}

TEST_F(Http1Frontend, SendsConnectionCloseWhileDraining) {
  auto client = connect();
  client->send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
  client->read_message();
  callbacks.drains = true;

  client->send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");

  EXPECT_NE(client->read_to_end().find("connection: close"), std::string::npos);
}

TEST_F(Http1Frontend, IsListedAsIdleBetweenRequestsAndClosesWhenWoken) {
  auto client = connect();
  EXPECT_FALSE(callbacks.idle.empty());
  client->send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
  client->read_message();
  ASSERT_TRUE(eventually(loop, [&] { return !callbacks.idle.empty(); }));

  callbacks.idle.wake_first();

  EXPECT_EQ(client->read_to_end(), "");
  EXPECT_TRUE(closed());
}

TEST_F(Http1Frontend, IsNotListedAsIdleDuringARequest) {
  answer_with_body_feed();
  auto client = connect();
  client->send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");

  EXPECT_TRUE(eventually(loop, [&] { return feed->reads == 1; }));
  EXPECT_TRUE(callbacks.idle.empty());
}

TEST_F(Http1Frontend, ClosesConnectionsAfterTheIdleTimeout) {
  options.timeouts.idle = 50ms;
  auto client = connect();
  client->send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
  client->read_message();

  EXPECT_EQ(client->read_to_end(), "");
}

TEST_F(Http1Frontend, ClosesConnectionsThatNeverSendARequest) {
  options.timeouts.header = 50ms;
  auto client = connect();

  EXPECT_EQ(client->read_to_end(), "");
  EXPECT_TRUE(callbacks.refusals.empty());
}

// ---- times -------------------------------------------------------------------------------------

/// A request in parts, with a pause behind each but the last.
struct PacedRequest {
  std::vector<std::string_view> parts;
};

const PacedRequest paced_requests[] = {
    {{"GET /1 HTTP/1.1\r\nHost: a\r\n\r\n"}},
    {{"POST /1 HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody"}},
    {{"POST /1 HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\n", "body"}},
    {{"POST /1 HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nb", "o", "dy"}},
    {{"POST /1 HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\n", "body\r\n"}},
    {{"POST /1 HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody", "\r", "\n"}},
    {{"POST /1 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n",
      "0\r\n\r\n"}},
    {{"POST /1 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n", "4\r\nbody\r\n0\r\n",
      "x-trailer: 1\r\n", "\r\n"}},
    {{"POST /1 HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n", "body"}},
};

class TimedHttp1Frontend : public Http1Frontend {
 protected:
  TimedHttp1Frontend() {
    answer_with([this](Request& request) -> Task<Result<Response>> {
      auto answer = co_await echo(request);
      times = request.info.timings;
      co_return answer;
    });
  }
  /// Lets the frontend handle what was sent, and time pass.
  void pause(Duration duration = 20ms) {
    loop.run_until([] { return false; }, Clock::now() + duration);
  }
  /// Sends a request on a connection and reads its answer. Returns when its second part was sent.
  Instant exchange(Peer& client, const PacedRequest& request) {
    Instant second = never;
    for (const std::string_view part : request.parts) {
      if (part.data() != request.parts.front().data()) pause();
      if (part.data() != request.parts.front().data() && second == never) second = Clock::now();
      client.send(part);
    }
    std::string answer = client.read_message();
    if (answer.starts_with("HTTP/1.1 100 ")) answer = client.read_message();
    EXPECT_TRUE(answer.starts_with("HTTP/1.1 200 ")) << answer;
    return second;
  }

  RequestTimings times;  // of the last request
};

TEST_F(TimedHttp1Frontend, ARequestBeginsWithItsFirstByteHoweverTheOneBeforeItEnded) {
  for (const PacedRequest& before : paced_requests) {
    auto client = connect();
    exchange(*client, before);
    pause();
    const Instant first_byte = Clock::now();
    client->send("P");
    pause();
    const Instant rest = Clock::now();

    client->send("OST /2 HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody");
    client->read_message();

    EXPECT_GE(times.started, first_byte) << before.parts.front();
    EXPECT_LT(times.started, rest) << before.parts.front();
    EXPECT_GE(times.head_received, rest) << before.parts.front();
    EXPECT_EQ(times.awaited_body, Duration{}) << before.parts.front();
  }
}

TEST_F(TimedHttp1Frontend, AnEmptyLineBeforeARequestIsNoPartOfIt) {
  auto client = connect();
  client->send("\r\n");
  pause();
  const Instant first_byte = Clock::now();

  exchange(*client, {{"GET / HTTP/1.1\r\nHost: a\r\n\r\n"}});

  EXPECT_GE(times.started, first_byte);
}

TEST_F(TimedHttp1Frontend, ThePausesOfABodyAreItsClientsUntilABackendHasTheRequest) {
  for (const PacedRequest& request : paced_requests) {
    const bool whole = request.parts.size() == 1 || request.parts[1].starts_with("\r");
    const Instant began = Clock::now();

    auto client = connect();
    const Instant second = exchange(*client, request);

    EXPECT_GE(times.started, began) << request.parts.front();
    EXPECT_LT(times.head_received, second) << request.parts.front();
    if (whole) {
      EXPECT_EQ(times.awaited_body, Duration{}) << request.parts.front();
    } else {
      EXPECT_GE(times.awaited_body, 15ms) << request.parts.front();
    }
  }
}

TEST_F(TimedHttp1Frontend, APipelinedRequestBeginsWhenTheOneBeforeItHasEnded) {
  auto client = connect();
  int handled = 0;
  answer_with([&](Request& request) -> Task<Result<Response>> {
    times = request.info.timings;
    if (++handled > 1) co_return answer_of("second");
    co_return Response{.body = std::make_unique<ScriptedBody>(feed)};
  });
  client->send("GET /1 HTTP/1.1\r\nHost: a\r\n\r\nGET /2 HTTP/1.1\r\nHost: a\r\n\r\n");
  pause();
  const Instant ended = Clock::now();

  feed->end();
  client->read_to("second");

  EXPECT_GE(times.started, ended);
}

TEST_F(TimedHttp1Frontend, AConnectionIsIdleHoweverTheRequestBeforeItEnded) {
  for (const PacedRequest& before : paced_requests) {
    auto client = connect();
    exchange(*client, before);
    ASSERT_TRUE(eventually(loop, [&] { return !callbacks.idle.empty(); })) << before.parts.front();

    callbacks.idle.wake_first();

    EXPECT_EQ(client->read_to_end(), "") << before.parts.front();
  }
  EXPECT_TRUE(callbacks.refusals.empty());
}

TEST_F(TimedHttp1Frontend, AKeptConnectionHasTheIdleTimeoutHoweverTheRequestBeforeItEnded) {
  for (const PacedRequest& before : paced_requests) {
    options.timeouts.header = 1min;
    options.timeouts.idle = 40ms;
    auto client = connect();
    exchange(*client, before);
    EXPECT_EQ(client->read_to_end(), "") << before.parts.front();
  }
  for (const PacedRequest& before : paced_requests) {
    options.timeouts.header = 60ms;
    options.timeouts.idle = 1min;
    auto client = connect();
    exchange(*client, before);
    pause(130ms);
    EXPECT_FALSE(client->ended()) << before.parts.front();
  }
  EXPECT_TRUE(callbacks.refusals.empty());
}

TEST_F(TimedHttp1Frontend, WhatIsNoRequestDoesNotExtendTheIdleTimeout) {
  options.timeouts.idle = 100ms;
  auto client = connect();
  exchange(*client, paced_requests[0]);

  client->send("\r\n");

  EXPECT_EQ(client->read_to_end(), "");
  EXPECT_TRUE(callbacks.refusals.empty());
}

TEST_F(TimedHttp1Frontend, TheHeadOfARefusedRequestEndsBeforeItsAnswer) {
  auto client = connect();
  client->send("GET /x HTTP/1.1\r\n");
  pause();
  const Instant rest = Clock::now();

  client->send("\r\n");

  EXPECT_TRUE(client->read_to_end().starts_with("HTTP/1.1 400 "));
  EXPECT_GE(callbacks.refused_times.head_received, rest);
  EXPECT_LT(callbacks.refused_times.started, rest);
}

// ---- deadlines ---------------------------------------------------------------------------------

TEST_F(Http1Frontend, TimesOutOnStalledHeads) {
  options.timeouts.header = 100ms;
  auto client = connect();

  client->send("GET /slow HTTP/1.1\r\nHost: ");

  const std::string answer = client->read_to_end();
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 408 Request Timeout\r\n")) << answer;
  EXPECT_NE(answer.find("x-evenkeel-reason: header_timeout\r\n"), std::string::npos);
  EXPECT_EQ(callbacks.refusals, std::vector<std::string>{"408 header_timeout GET /slow"});
}

TEST_F(Http1Frontend, DoesNotExtendTheHeaderTimeoutByteByByte) {
  options.timeouts.header = 200ms;
  auto client = connect();
  const Instant began = Clock::now();
  client->send("GET / HTTP/1.1\r\nHost: a\r\nX: ");

  while (!client->ended() && Clock::now() - began < 5s) {  // a byte every few milliseconds
    std::string_view more = "y";
    client->send_some(more);
    eventually(loop, [&] { return client->ended(); }, 5ms);
  }

  EXPECT_LT(Clock::now() - began, 4s);
  EXPECT_TRUE(client->read_to_end().starts_with("HTTP/1.1 408 "));
}

TEST_F(Http1Frontend, TimesOutOnStalledBodies) {
  options.timeouts.body = 50ms;
  auto client = connect();

  client->send("POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhalf");

  const std::string answer = client->read_to_end();
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 408 ")) << answer;
  EXPECT_NE(answer.find("\"code\":\"body_timeout\""), std::string::npos) << answer;
  EXPECT_NE(answer.find("connection: close\r\n"), std::string::npos);
}

TEST_F(Http1Frontend, TimesOutOnClientsThatDoNotRead) {
  options.timeouts.write = 100ms;
  answer_with_body_feed();
  auto client = connect(8 * 1024);
  client->send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
  for (int i = 0; i < 200; ++i) feed->push(std::string(60'000, 'x'));

  EXPECT_TRUE(closed());
  EXPECT_TRUE(feed->dropped);
}

// ---- refusals ----------------------------------------------------------------------------------

TEST_F(Http1Frontend, FinishesAWholeResponseThatTheKernelTakesInParts) {
  const std::string large(300'000, 'x');
  answer_with(
      [&](Request&) -> Task<Result<Response>> { return Result<Response>(answer_of(large)); });
  auto client = connect(4096);

  for (int i = 0; i < 2; ++i) {
    client->send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    EXPECT_EQ(client->read_message(), "HTTP/1.1 200 OK\r\ncontent-length: 300000\r\n\r\n" + large);
  }
}

TEST_F(Http1Frontend, TurnsTheFailureOfAKnownLengthIntoAnErrorResponse) {
  answer_with([](Request&) -> Task<Result<Response>> {
    return Result<Response>(Response{.body = std::make_unique<BrokenBody>()});
  });

  EXPECT_EQ(answers_to("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").substr(0, 24),
            "HTTP/1.1 502 Bad Gateway");
}

TEST_F(Http1Frontend, RejectsAndStopsReading) {
  const std::string answer = answers_to(
      "GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n"
      "GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n");

  EXPECT_TRUE(answer.starts_with("HTTP/1.1 400 Bad Request\r\n")) << answer;
  EXPECT_NE(answer.find("\r\nconnection: close\r\n"), std::string::npos);
  EXPECT_EQ(answer.find("HTTP/1.1", 1), std::string::npos);
  EXPECT_EQ(callbacks.refusals, std::vector<std::string>{"400 bad_request GET /"});
}

TEST_F(Http1Frontend, AnswersRejectionsWithTheStatusOfTheirFault) {
  const auto status = [&](std::string_view bytes) { return answers_to(bytes).substr(9, 3); };
  options.limits.uri_bytes = 100;
  options.limits.header_bytes = 1000;
  EXPECT_EQ(status("GET /" + std::string(200, 'a') + " HTTP/1.1\r\n\r\n"), "414");
  EXPECT_EQ(status("GET / HTTP/1.1\r\nHost: a\r\nX: " + std::string(1000, 'a') + "\r\n\r\n"),
            "431");
  EXPECT_EQ(status("GET / HTTP/2.0\r\n\r\n"), "505");
  EXPECT_EQ(status("CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n"), "405");
  EXPECT_EQ(status("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n"), "501");
  EXPECT_EQ(status("POST / HTTP/1.1\r\nHost: a\r\nExpect: x\r\n\r\n"), "417");
  EXPECT_EQ(status("\x16\x03\x01"), "400");
}

TEST_F(Http1Frontend, NamesTheLimitThatARefusedRequestExceeds) {
  const auto message = [&](std::string_view bytes) {
    const std::string answer = answers_to(bytes);
    return answer.substr(answer.find("\r\n\r\n") + 4);
  };
  options.limits.uri_bytes = 100;
  options.limits.header_bytes = 2048;
  options.limits.header_fields = 5;
  options.limits.body_bytes = 1024 * 1024;
  std::string fields;
  for (int i = 0; i < 10; ++i) fields += "X: y\r\n";

  EXPECT_EQ(message("GET /" + std::string(200, 'a') + " HTTP/1.1\r\n\r\n"),
            "the request target exceeds 100 bytes (limits.uri)\n");
  EXPECT_EQ(message("GET / HTTP/1.1\r\nHost: a\r\nX: " + std::string(3000, 'a') + "\r\n\r\n"),
            "the request head exceeds 2 KiB (limits.header)\n");
  EXPECT_EQ(message("GET / HTTP/1.1\r\nHost: a\r\n" + fields + "\r\n"),
            "the request has more than 5 header fields (limits.header_fields)\n");
  EXPECT_EQ(message("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2000000\r\n\r\n"),
            "the request body exceeds 1 MiB (limits.body)\n");
}

TEST_F(Http1Frontend, GivesARefusedRequestTheIdOfTheClient) {
  options.limits.header_bytes = 1000;
  const std::string answer = answers_to(
      "GET / HTTP/1.1\r\nX-Request-Id: find-me\r\nX: " + std::string(1000, 'a') + "\r\n\r\n");

  EXPECT_NE(answer.find("\r\nx-request-id: find-me\r\n"), std::string::npos) << answer;
  EXPECT_EQ(callbacks.refused_ids, std::vector<std::string>{"find-me"});
}

TEST_F(Http1Frontend, GivesARefusedRequestAnIdIfTheClientsIsMissingOrInvalid) {
  for (const char* field : {"", "X-Request-Id: \"; drop\r\n"}) {
    callbacks.refused_ids.clear();
    const std::string answer =
        answers_to("TRACE / HTTP/1.1\r\nHost: a\r\n" + std::string(field) + "\r\n");

    ASSERT_EQ(callbacks.refused_ids.size(), 1u);
    EXPECT_EQ(callbacks.refused_ids.front().size(), 36u) << callbacks.refused_ids.front();
    EXPECT_NE(answer.find("\r\nx-request-id: " + callbacks.refused_ids.front() + "\r\n"),
              std::string::npos)
        << answer;
  }
}

TEST_F(Http1Frontend, ReportsTheBytesOfARefusal) {
  const std::string answer = answers_to("TRACE / HTTP/1.1\r\nHost: a\r\n\r\n");

  const std::string body = answer.substr(answer.find("\r\n\r\n") + 4);
  EXPECT_EQ(callbacks.refused_bytes_out, std::vector<std::uint64_t>{body.size()});
}

TEST_F(Http1Frontend, ReportsTheHostOfARefusalWhereItWasRead) {
  options.limits.header_bytes = 1000;
  const std::string too_long = "X: " + std::string(1000, 'a') + "\r\n";
  answers_to("GET / HTTP/1.1\r\n" + too_long + "Host: unread\r\n\r\n");
  answers_to("GET / HTTP/1.1\r\nHost: read\r\n" + too_long + "\r\n");
  answers_to("POST / HTTP/1.1\r\nHost: invalid\r\nContent-Length: x\r\n\r\n");
  answers_to("POST / HTTP/1.1\r\nHost: whole\r\nContent-Length: 99999999999\r\n\r\n");

  EXPECT_EQ(callbacks.refused_hosts, (std::vector<std::string>{"", "read", "invalid", "whole"}));
}

TEST_F(Http1Frontend, ReportsARefusalWhoseConnectionIsDroppedDuringTheResponse) {
  const SocketPair ends = connected_pair(4 * 1024);
  const std::string_view refused = "TRACE /mine HTTP/1.1\r\nHost: a\r\n\r\n";
  ASSERT_EQ(::send(ends.theirs, refused.data(), refused.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(refused.size()));
  // The kernel moves bytes to the peer for a while, and then there is room again.
  const std::string filler(64 * 1024, 'x');
  for (int full = 0; full < 10; ++full) {
    while (::send(ends.ours, filler.data(), filler.size(), MSG_NOSIGNAL) > 0) full = 0;
    drain_loop(loop);
  }

  loop.spawn(serve_http1(std::make_unique<Socket>(loop, ends.ours),
                         resolve("192.0.2.7", 5555)->front(), options, callbacks));
  drain_loop(loop);
  EXPECT_TRUE(callbacks.refusals.empty()) << "the response was written, so the test shows nothing";

  loop.drop_spawned();

  EXPECT_EQ(callbacks.refusals, std::vector<std::string>{"405 method_not_allowed TRACE /mine"});
  EXPECT_EQ(callbacks.refused_bytes_out, std::vector<std::uint64_t>{0});
  ::close(ends.theirs);
}

TEST_F(Http1Frontend, RefusesBodiesByTheirLengthBeforeTheyArrive) {
  options.limits.body_bytes = 1000;
  const std::string answer = answers_to(
      "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1001\r\nExpect: 100-continue\r\n\r\n");

  EXPECT_TRUE(answer.starts_with("HTTP/1.1 413 ")) << answer;
}

TEST_F(Http1Frontend, RefusesBodiesThatGrowTooLarge) {
  options.limits.body_bytes = 1000;
  auto client = connect();

  client->send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n400\r\n" +
               std::string(1024, 'x') + "\r\n");

  const std::string answer = client->read_to_end();
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 413 ")) << answer;
  EXPECT_NE(answer.find("\r\nconnection: close\r\n"), std::string::npos);
}

TEST_F(Http1Frontend, RejectsBadChunksAndStopsReading) {
  const std::string answer = answers_to(
      "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5 \r\nhello\r\n0\r\n\r\n"
      "GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n");

  EXPECT_TRUE(answer.starts_with("HTTP/1.1 400 ")) << answer;
  EXPECT_EQ(answer.find("HTTP/1.1", 1), std::string::npos);
}

TEST_F(Http1Frontend, DeliversTheResponseWhileTheClientKeepsSending) {
  options.limits.body_bytes = 1000;
  auto client = connect();
  const std::string much(500'000, 'x');

  client->send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 500000\r\n\r\n" + much);

  EXPECT_TRUE(client->read_to_end().starts_with("HTTP/1.1 413 "));
  EXPECT_FALSE(client->sees_reset());
}

// ---- Expect ------------------------------------------------------------------------------------

TEST_F(Http1Frontend, SendsContinueWhenTheBodyIsRead) {
  auto client = connect();
  client->send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n");

  EXPECT_EQ(client->read_head(), "HTTP/1.1 100 Continue\r\n\r\n");
  client->send("body");
  EXPECT_TRUE(client->read_message().ends_with("POST / body"));
}

TEST_F(Http1Frontend, SendsNoContinueAfterTheBodyArrived) {
  auto client = connect();
  client->send(
      "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\nbody");

  EXPECT_TRUE(client->read_message().starts_with("HTTP/1.1 200 OK"));
}

TEST_F(Http1Frontend, ClosesAfterAFinalResponseInsteadOfContinue) {
  answer_with([](Request&) -> Task<Result<Response>> { return Result<Response>(answer_of("no")); });
  auto client = connect();
  client->send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n");

  EXPECT_EQ(client->read_to_end(),
            "HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nno");
}

// ---- early responses ---------------------------------------------------------------------------

TEST_F(Http1Frontend, DrainsASmallUnreadBodyAndContinues) {
  answer_with([](Request&) -> Task<Result<Response>> { return Result<Response>(answer_of("no")); });
  auto client = connect();
  client->send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhalf.");
  EXPECT_EQ(client->read_message(), "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nno");

  client->send(
      "other"
      "GET / HTTP/1.1\r\nHost: a\r\n\r\n");

  EXPECT_EQ(client->read_message(), "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nno");
}

TEST_F(Http1Frontend, DrainsUnreadChunksAndContinues) {
  answer_with([](Request&) -> Task<Result<Response>> { return Result<Response>(answer_of("no")); });
  auto client = connect();
  client->send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel");
  EXPECT_EQ(client->read_message(), "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nno");

  client->send("lo\r\n0\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n");

  EXPECT_EQ(client->read_message(), "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nno");
}

TEST_F(Http1Frontend, ClosesAfterAnEarlyAnswerToALargeBody) {
  answer_with([](Request&) -> Task<Result<Response>> { return Result<Response>(answer_of("no")); });
  auto client = connect();
  client->send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\nhalf.");

  EXPECT_EQ(client->read_message(),
            "HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nno");
  client->send(std::string(100'000, 'x'));
  EXPECT_TRUE(client->sees_end());
  EXPECT_FALSE(client->sees_reset());
}

TEST_F(Http1Frontend, LimitsTheTimeToDrainAnUnreadBody) {
  options.timeouts.linger = 500ms;
  answer_with([](Request&) -> Task<Result<Response>> { return Result<Response>(answer_of("no")); });
  auto client = connect();
  const Instant began = Clock::now();

  client->send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhalf.");

  EXPECT_TRUE(client->sees_end());
  EXPECT_LT(Clock::now() - began, 5s);  // well below the body timeout of a minute
}

TEST_F(Http1Frontend, DeliversTheLastResponseWithPartOfTheBodyUnread) {
  answer_with([](Request&) -> Task<Result<Response>> { return Result<Response>(answer_of("no")); });
  auto client = connect();

  client->send("POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 300000\r\n\r\n" +
               std::string(300'000, 'x'));

  EXPECT_TRUE(client->read_to_end().ends_with("no"));
  EXPECT_FALSE(client->sees_reset());
}

// ---- responses ---------------------------------------------------------------------------------

TEST_F(Http1Frontend, AnswersHeadWithTheLengthAndNoBody) {
  answer_with(
      [](Request&) -> Task<Result<Response>> { return Result<Response>(answer_of("text")); });
  auto client = connect();
  client->send("HEAD / HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n");

  EXPECT_EQ(client->read_to("text"),
            "HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: "
            "4\r\n\r\ntext");
}

TEST_F(Http1Frontend, SendsNoBodyWithBodilessStatuses) {
  int status = 204;
  answer_with([&](Request&) -> Task<Result<Response>> {
    return Result<Response>(Response{.status = status, .body = make_body("text")});
  });
  auto client = connect();
  client->send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_EQ(client->read_head(), "HTTP/1.1 204 No Content\r\n\r\n");

  status = 304;
  client->send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_EQ(client->read_head(), "HTTP/1.1 304 Not Modified\r\ncontent-length: 4\r\n\r\n");
}

TEST_F(Http1Frontend, StreamsEachChunkAsItArrives) {
  answer_with_body_feed();
  auto client = connect();
  client->send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");

  EXPECT_EQ(client->read_head(), "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n");
  feed->push("data: 1\n\n");
  EXPECT_EQ(client->read_to("\n\n\r\n"), "9\r\ndata: 1\n\n\r\n");
  feed->push("data: 2\n\n");
  EXPECT_EQ(client->read_to("\n\n\r\n"), "9\r\ndata: 2\n\n\r\n");
  feed->end();
  EXPECT_EQ(client->read_to("\r\n\r\n"), "0\r\n\r\n");
}

TEST_F(Http1Frontend, SendsTrailersAfterTheLastChunk) {
  answer_with_body_feed();
  feed->trailers.add("grpc-status", "0");
  feed->push("x");
  feed->end();
  auto client = connect();
  client->send("GET / HTTP/1.1\r\nHost: a\r\nTE: trailers\r\n\r\n");

  client->read_head();
  EXPECT_EQ(client->read_to("\r\n\r\n"), "1\r\nx\r\n0\r\ngrpc-status: 0\r\n\r\n");
}

TEST_F(Http1Frontend, AbortsAFailedChunkedStreamWithoutALastChunk) {
  answer_with_body_feed();
  auto client = connect();
  client->send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
  feed->push("half");
  client->read_to("half\r\n");

  feed->fail({.fault = Fault::backend_closed, .side = Side::backend});

  EXPECT_EQ(client->read_to_end(), "");
}

TEST_F(Http1Frontend, TurnsAFailureBeforeTheFirstByteIntoAnErrorResponse) {
  answer_with_body_feed();
  feed->length = 10;
  feed->fail({.fault = Fault::backend_closed, .side = Side::backend, .detail = "gone"});
  auto client = connect();
  client->send("GET /v1/models HTTP/1.1\r\nHost: a\r\n\r\n");

  const std::string answer = client->read_message();
  // The body is read before the head is written, so the failure can still be answered.
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 502 Bad Gateway\r\n")) << answer;
  EXPECT_NE(answer.find("\"code\":\"backend_closed\""), std::string::npos);
}

TEST_F(Http1Frontend, AnswersErrorsInTheFormatOfThePath) {
  answer_with([](Request&) -> Task<Result<Response>> {
    return Result<Response>(Error{.fault = Fault::queue_full, .detail = "all are busy"});
  });
  auto client = connect();
  client->send("GET /v1/x HTTP/1.1\r\nHost: a\r\n\r\n");

  const std::string answer = client->read_message();
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 429 Too Many Requests\r\n"));
  EXPECT_NE(answer.find("retry-after: 1\r\n"), std::string::npos);
  EXPECT_TRUE(answer.ends_with(
      R"({"error":{"message":"all are busy","type":"overloaded","param":null,"code":"queue_full"}})"))
      << answer;
  EXPECT_FALSE(client->ended());
}

TEST_F(Http1Frontend, ForwardsInterimResponses) {
  answer_with([](Request& request) -> Task<Result<Response>> {
    Fields fields;
    fields.add("link", "</style.css>");
    if (request.interim != nullptr) request.interim->interim(103, fields);
    return Result<Response>(answer_of("x"));
  });
  auto client = connect();
  client->send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_EQ(client->read_head(), "HTTP/1.1 103 Early Hints\r\nlink: </style.css>\r\n\r\n");
  EXPECT_TRUE(client->read_message().starts_with("HTTP/1.1 200 OK"));

  client->send("GET / HTTP/1.0\r\n\r\n");
  EXPECT_TRUE(client->read_to_end().starts_with("HTTP/1.1 200 OK"));
}

TEST_F(Http1Frontend, KeepsTheOrderAfterAPartiallyWrittenInterimResponse) {
  const std::string large(300'000, 'x');
  const std::string hint(5'000, 'h');
  int requests = 0;
  answer_with([&](Request& request) -> Task<Result<Response>> {
    if (++requests == 1) return Result<Response>(answer_of(large));
    Fields fields;
    fields.add("link", hint);
    for (int i = 0; i < 200; ++i) request.interim->interim(103, fields);
    return Result<Response>(answer_of("end"));
  });
  auto client = connect(64 * 1024);
  client->send("GET / HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n");

  EXPECT_TRUE(client->read_message().ends_with(large));
  std::string rest = client->read_to("end");
  const std::string one = "HTTP/1.1 103 Early Hints\r\nlink: " + hint + "\r\n\r\n";
  int hints = 0;
  for (; rest.starts_with(one); ++hints) rest.erase(0, one.size());
  EXPECT_EQ(rest, "HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nend");
  EXPECT_GT(hints, 0);
}

// ---- clients that leave or are slow -----------------------------------------------------------

TEST_F(Http1Frontend, DropsTheHandlerWhenTheClientDisconnects) {
  Signal nothing(loop);
  bool dropped = false;
  struct Flag {
    bool& flag;
    ~Flag() { flag = true; }
  };
  answer_with([&](Request&) -> Task<Result<Response>> {
    const Flag flag{dropped};
    co_await nothing.wait();
    co_return answer_of("never");
  });
  for (const bool orderly : {true, false}) {
    dropped = false;
    auto client = connect();
    client->send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    drain_loop(loop);
    ASSERT_FALSE(dropped);
    const Instant left = Clock::now();

    orderly ? client->close() : client->reset();

    EXPECT_TRUE(eventually(loop, [&] { return dropped; }));
    EXPECT_LT(Clock::now() - left, 50ms);
  }
  EXPECT_TRUE(closed(2));
}

TEST_F(Http1Frontend, DropsTheBodyWhenTheClientDisconnects) {
  answer_with_body_feed();
  auto client = connect();
  client->send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
  feed->push("x");
  client->read_to("x\r\n");
  const Instant left = Clock::now();

  client->close();

  EXPECT_TRUE(eventually(loop, [&] { return feed->dropped; }));
  EXPECT_LT(Clock::now() - left, 50ms);
}

TEST_F(Http1Frontend, WaitsForAHalfClosedClientWhenConfigured) {
  options.half_close = HalfClose::wait;
  answer_with_body_feed();
  auto client = connect();
  client->send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
  client->finish_sending();
  drain_loop(loop);
  ASSERT_FALSE(feed->dropped);

  feed->push("x");
  feed->end();

  EXPECT_TRUE(client->read_to_end().ends_with("1\r\nx\r\n0\r\n\r\n"));
}

TEST_F(Http1Frontend, PausesTheSourceForASlowReader) {
  answer_with_body_feed();
  auto client = connect(16 * 1024);
  client->send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
  std::string expected;
  for (int i = 0; i < 400; ++i) {
    feed->push(std::string(16'384, static_cast<char>('a' + i % 26)));
    expected += "4000\r\n" + std::string(16'384, static_cast<char>('a' + i % 26)) + "\r\n";
  }
  drain_loop(loop, 50);

  // The client reads nothing: only what the kernel holds and one chunk was read from the source.
  const int reads = feed->reads;
  EXPECT_LT(reads, 100);
  drain_loop(loop, 50);
  EXPECT_EQ(feed->reads, reads);

  feed->end();
  client->read_head();
  EXPECT_EQ(client->read_to("\r\n0\r\n\r\n"), expected + "0\r\n\r\n");
}

TEST_F(Http1Frontend, FailsTheRequestBodyWhenTheClientDisconnects) {
  std::optional<Fault> fault;
  answer_with([&](Request& request) -> Task<Result<Response>> {
    Collected body;
    co_await collect(*request.body, body);
    if (body.error) fault = body.error->fault;
    co_return answer_of("x");
  });
  options.half_close = HalfClose::wait;
  auto client = connect();
  client->send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhalf");
  drain_loop(loop);

  client->finish_sending();

  EXPECT_TRUE(eventually(loop, [&] { return fault == Fault::client_gone; }));
}

// ---- tunnels -----------------------------------------------------------------------------------

/// Responds 101; the feed is the tunnel's other end, and the client's bytes are collected.
Task<Result<Response>> upgrade(Request& request, std::shared_ptr<BodyFeed> feed, Collected& said) {
  EXPECT_EQ(request.upgrade, "websocket");
  Response response{.status = 101,
                    .body = std::make_unique<ScriptedBody>(feed, collect(*request.body, said))};
  response.fields.add("upgrade", "websocket");
  co_return response;
}

constexpr std::string_view upgrade_request =
    "GET /ws HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket\r\n"
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";

TEST_F(Http1Frontend, TunnelsInBothDirections) {
  Collected said;
  answer_with([&](Request& request) { return upgrade(request, feed, said); });
  auto client = connect();
  client->send(std::string(upgrade_request) + "early");

  EXPECT_EQ(
      client->read_head(),
      "HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: upgrade\r\n\r\n");
  EXPECT_TRUE(eventually(loop, [&] { return said.bytes == "early"; }));
  feed->push("server");
  EXPECT_EQ(client->read_to("server"), "server");
  client->send("\x81\x05 GET / HTTP/1.1\r\n\r\n");
  EXPECT_TRUE(
      eventually(loop, [&] { return said.bytes == "early\x81\x05 GET / HTTP/1.1\r\n\r\n"; }));

  client->finish_sending();
  EXPECT_TRUE(eventually(loop, [&] { return said.done; }));
  EXPECT_FALSE(said.error);
  feed->push("last words");
  EXPECT_EQ(client->read_to("last words"), "last words");
  feed->end();
  EXPECT_EQ(client->read_to_end(), "");
}

TEST_F(Http1Frontend, DeliversTheLastTunnelBytesWhileTheClientKeepsSending) {
  Collected said;
  answer_with([&](Request& request) { return upgrade(request, feed, said); });
  auto client = connect();
  client->send(upgrade_request);
  client->read_head();
  feed->push("bye");
  feed->end();
  drain_loop(loop);

  for (int i = 0; i < 3; ++i) {
    client->send("still here");
    drain_loop(loop);
  }

  EXPECT_FALSE(client->refused());
  EXPECT_EQ(client->read_to_end(), "bye");
  EXPECT_FALSE(client->sees_reset());
}

TEST_F(Http1Frontend, DoesNotParseBytesAfterARejectedUpgradeAsARequest) {
  answer_with([](Request&) -> Task<Result<Response>> { return Result<Response>(answer_of("no")); });

  EXPECT_EQ(answers_to(std::string(upgrade_request) + "GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n"),
            "HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nno");
}

}  // namespace
}  // namespace evenkeel
