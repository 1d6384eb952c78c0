// Backend connections of HTTP/2: a backend that has gone silent is found, whatever is sent to it.
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>

#include "evenkeel/wire/link.h"
#include "evenkeel/wire/link_body.h"
#include "wire/http2_server_end.h"
#include "wire/peer.h"
#include "wire/response_buffer.h"
#include "wire/scripted_body.h"

namespace evenkeel {
namespace {

using namespace std::chrono_literals;

/// A request over the link, with its result.
struct Call {
  Request request{.method = "POST", .authority = "a", .path = "/"};
  std::optional<Result<Response>> head;
  Collected body;
  Task<void> running;  // the last member: it reads the others

  const Error* error() const {
    if (head && !*head) return &head->error();
    return body.error ? &*body.error : nullptr;
  }
};

Task<void> run(Link& link, Call& call) {
  auto head = co_await link.send(call.request);
  call.head.emplace(std::move(head));
  if (!*call.head) co_return;
  co_await collect(*(*call.head)->body, call.body);
  (*call.head)->body.reset();
}

class Http2LinkTest : public testing::Test {
 protected:
  void connect(bool tunnels = false) {
    const SocketPair ends = connected_pair();
    peer = std::make_unique<Peer>(loop, ends.theirs);
    backend = std::make_unique<Http2ServerEnd>(*peer);
    auto opening = open_http2_link(std::make_unique<Socket>(loop, ends.ours), options, never);
    tunnels ? backend->accept_with_tunnels() : backend->accept();
    ASSERT_TRUE(eventually(loop, [&] { return opening.ready(); }));
    auto opened = opening.take();
    ASSERT_TRUE(opened.ok());
    link = std::move(*opened);
  }
  void start(Call& call) { call.running = run(*link, call); }
  bool fails(const Call& call) {
    return eventually(loop, [&] { return call.error() != nullptr; });
  }
  /// A call that the backend answers at once; its stream is the first one.
  void serve_one() {
    Call call;
    start(call);
    ASSERT_TRUE(eventually(loop, [&] { return backend->requests() == 1; }));
    backend->answer(1);
    ASSERT_TRUE(eventually(loop, [&] { return call.body.done; }));
  }
  static Task<void> sleep(Loop& loop, Duration time) { co_await loop.sleep_for(time); }
  void wait_for(Duration time) {
    auto sleeping = sleep(loop, time);
    ASSERT_TRUE(eventually(loop, [&] { return sleeping.ready(); }));
  }

  Loop loop;
  LinkOptions options{.ping_after = 200ms, .ping_timeout = 200ms};
  std::unique_ptr<Peer> peer;
  std::unique_ptr<Http2ServerEnd> backend;
  std::unique_ptr<Link> link;
};

TEST_F(Http2LinkTest, TakesNoMoreRequestsWhileTheBackendLetsItSendNothing) {
  options = {.ping_after = 20s, .ping_timeout = 20s};
  connect();
  auto feed = std::make_shared<BodyFeed>(loop);
  feed->push(std::string(100'000, 'x'));
  Call call;
  call.request.body = std::make_unique<ScriptedBody>(feed);
  start(call);
  wait_for(500ms);
  EXPECT_GT(link->available_capacity(), 0u) << "it may be reading";

  EXPECT_TRUE(eventually(loop, [&] { return link->available_capacity() == 0; }));
  EXPECT_TRUE(link->alive(true)) << "its requests go on";

  backend->send(8, 0, 0, std::string_view("\0\x1\0\0", 4));  // WINDOW_UPDATE
  EXPECT_TRUE(eventually(loop, [&] { return link->available_capacity() > 0; }));
}

TEST_F(Http2LinkTest, TakesMoreRequestsWhileAnUploadUsesUpWhatTheBackendTakes) {
  options = {.ping_after = 20s, .ping_timeout = 20s};
  connect();
  auto feed = std::make_shared<BodyFeed>(loop);
  feed->push(std::string(500'000, 'x'));
  Call call;
  call.request.body = std::make_unique<ScriptedBody>(feed);
  start(call);

  for (int i = 0; i < 6; ++i) {
    wait_for(300ms);
    EXPECT_GT(link->available_capacity(), 0u);
    for (const std::uint32_t stream : {0u, 1u}) {  // WINDOW_UPDATE
      backend->send(8, 0, stream, std::string_view("\0\0\x10\0", 4));
    }
  }
}

TEST_F(Http2LinkTest, FailsItsRequestsWhenTheBackendIsSilentAlthoughNewOnesAreSent) {
  connect();
  serve_one();
  std::vector<std::unique_ptr<Call>> calls;
  const Instant began = Clock::now();

  while (link->available_capacity() > 0 && Clock::now() < began + 10s) {
    start(*calls.emplace_back(std::make_unique<Call>()));
    wait_for(50ms);
  }

  EXPECT_LT(Clock::now() - began, 5s);  // the ping is due in spite of what was sent
  EXPECT_GE(calls.size(), 3u);
  for (const auto& call : calls) {
    ASSERT_TRUE(fails(*call));
    EXPECT_EQ(call->error()->fault, Fault::backend_closed);
    EXPECT_EQ(call->error()->detail, "the backend does not answer pings");
    EXPECT_FALSE(call->error()->not_processed);
  }
  EXPECT_EQ(backend->count(Http2ServerEnd::ping), 1u);
}

TEST_F(Http2LinkTest, TakesNoRequestWhileAPingIsUnanswered) {
  options.ping_timeout = 10s;
  connect();
  Call call;
  start(call);
  ASSERT_TRUE(eventually(loop, [&] { return backend->count(Http2ServerEnd::ping) == 1; }));
  EXPECT_EQ(link->available_capacity(), 0u);

  backend->answer_ping();

  EXPECT_TRUE(eventually(loop, [&] { return link->available_capacity() > 0; }));
  EXPECT_EQ(call.error(), nullptr);
}

/// An upgrade as an HTTP/1.1 client sends it. Its body is fed.
struct Upgrade : Call {
  explicit Upgrade(Loop& loop) : feed(std::make_shared<BodyFeed>(loop)) {
    request.method = "GET";
    request.upgrade = "websocket";
    request.fields.add("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ==");
    request.body = std::make_unique<ScriptedBody>(feed);
  }
  std::shared_ptr<BodyFeed> feed;
};

TEST_F(Http2LinkTest, OpensATunnelByExtendedConnect) {
  connect(true);
  Upgrade call(loop);
  start(call);
  ASSERT_TRUE(eventually(loop, [&] { return backend->requests() == 1; }));
  EXPECT_EQ(backend->count(Http2ServerEnd::data), 0u);
  EXPECT_EQ(call.feed->reads, 0) << "the tunnel begins with the answer";
  backend->begin_answer(1);
  ASSERT_TRUE(eventually(loop, [&] { return call.head.has_value(); }));
  const Response& response = **call.head;
  EXPECT_EQ(response.status, 101);
  EXPECT_EQ(response.fields.value(FieldId::upgrade), "websocket");
  EXPECT_EQ(response.fields.value("sec-websocket-accept"), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");

  call.feed->push("to the server");
  ASSERT_TRUE(eventually(loop, [&] { return backend->count(Http2ServerEnd::data) == 1; }));
  backend->send(Http2ServerEnd::data, 0, 1, "to the client");
  ASSERT_TRUE(eventually(loop, [&] { return call.body.bytes == "to the client"; }));
  call.feed->end();
  ASSERT_TRUE(eventually(loop, [&] { return backend->frames().back().flags == 0x1; }));
  backend->send(Http2ServerEnd::data, 0x1, 1, ", last");

  ASSERT_TRUE(eventually(loop, [&] { return call.body.done; }));
  EXPECT_EQ(call.body.bytes, "to the client, last");
  EXPECT_EQ(backend->count(Http2ServerEnd::rst_stream), 0u);
}

TEST_F(Http2LinkTest, EndsARequestForATunnelThatIsRefused) {
  connect(true);
  Upgrade call(loop);
  start(call);
  ASSERT_TRUE(eventually(loop, [&] { return backend->requests() == 1; }));
  backend->send(Http2ServerEnd::headers, 0x5, 1, "\x8d");  // ":status: 404"
  ASSERT_TRUE(eventually(loop, [&] { return call.body.done; }));

  EXPECT_EQ((*call.head)->status, 404);
  EXPECT_EQ(call.feed->reads, 0);
  EXPECT_TRUE(eventually(loop, [&] { return backend->frames().back().flags == 0x1; }));
  EXPECT_EQ(backend->count(Http2ServerEnd::rst_stream), 0u);
  EXPECT_TRUE(link->alive(false));
}

TEST_F(Http2LinkTest, EndsTunnelsThatTheBackendEndsWithoutAResetHoweverMany) {
  constexpr std::size_t tunnels = 600;
  options.ping_after = 1min;
  connect(true);
  for (std::size_t opened = 1; opened <= tunnels; ++opened) {
    Upgrade call(loop);
    start(call);
    ASSERT_TRUE(eventually(loop, [&] { return backend->requests() == opened; }));
    const auto stream = static_cast<std::uint32_t>(2 * opened - 1);
    backend->begin_answer(stream);
    backend->send(Http2ServerEnd::data, 0x1, stream, "bye");
    ASSERT_TRUE(eventually(loop, [&] { return call.body.done; }));
    ASSERT_EQ(call.body.bytes, "bye");
  }

  const auto ended = [&] {
    std::size_t found = 0;
    for (const auto& frame : backend->frames())
      found += frame.type == Http2ServerEnd::data && frame.flags == 0x1;
    return found == tunnels;
  };
  EXPECT_TRUE(eventually(loop, ended));
  EXPECT_EQ(backend->count(Http2ServerEnd::rst_stream), 0u);
  EXPECT_TRUE(link->alive(false));
}

TEST_F(Http2LinkTest, SendsAnUpgradeAsAnOrdinaryRequestWhereNoTunnelIsOffered) {
  connect();
  Upgrade call(loop);
  start(call);
  ASSERT_TRUE(eventually(loop, [&] { return backend->requests() == 1; }));
  backend->answer(1);
  ASSERT_TRUE(eventually(loop, [&] { return call.body.done; }));

  EXPECT_EQ((*call.head)->status, 200);
  EXPECT_EQ(call.feed->reads, 0);
}

TEST_F(Http2LinkTest, TakesNoMoreRequestsAfterManyWereCancelled) {
  connect();
  serve_one();
  std::size_t cancelled = 0;
  while (link->available_capacity() > 0 && cancelled < 1000) {
    Request request{.method = "GET", .authority = "a", .path = "/"};
    auto sending = link->send(request);
    ASSERT_FALSE(sending.ready());
    sending.drop();
    ++cancelled;
  }

  EXPECT_GE(cancelled, 500u);
  EXPECT_LT(cancelled, 1000u);
  EXPECT_FALSE(link->alive(false));
}

TEST_F(Http2LinkTest, WidensTheWindowsOfAClientsResponsesWhileItsConnectionHasABudget) {
  connect();
  ConnectionBudget budget(Block::large);
  Call first;
  first.request.response_budget = &budget;
  Call second;
  second.request.response_budget = &budget;
  start(first);
  start(second);
  ASSERT_TRUE(eventually(loop, [&] { return backend->requests() == 2; }));
  const std::string window(16 * 1024, 'x');  // initially

  backend->begin_answer(1);
  backend->send(Http2ServerEnd::data, 0, 1, window);
  ASSERT_TRUE(eventually(loop, [&] { return first.body.bytes.size() == window.size(); }));
  EXPECT_EQ(budget.left(), 0u);

  backend->begin_answer(3);
  backend->send(Http2ServerEnd::data, 0, 3, window);
  ASSERT_TRUE(eventually(loop, [&] { return second.body.bytes.size() == window.size(); }));
  backend->send(Http2ServerEnd::data, 0x1, 1, "end");
  ASSERT_TRUE(eventually(loop, [&] { return first.body.done; }));
  EXPECT_EQ(budget.left(), Block::large);  // given back, and not taken while the second was refused

  backend->send(Http2ServerEnd::data, 0, 3, window);
  ASSERT_TRUE(eventually(loop, [&] { return second.body.bytes.size() == 2 * window.size(); }));
  EXPECT_EQ(budget.left(), 0u);
  backend->send(Http2ServerEnd::data, 0x1, 3, "end");
  ASSERT_TRUE(eventually(loop, [&] { return second.body.done; }));
  EXPECT_EQ(budget.left(), Block::large);
}

TEST_F(Http2LinkTest, TakesNothingFromTheBudgetForAResponseThatComesSlowly) {
  options.ping_after = 1h;
  connect();
  ConnectionBudget budget(Block::large);
  Call call;
  call.request.response_budget = &budget;
  start(call);
  ASSERT_TRUE(eventually(loop, [&] { return backend->requests() == 1; }));
  backend->begin_answer(1);

  for (std::size_t sent = 1; sent <= 5; ++sent) {
    backend->send(Http2ServerEnd::data, 0, 1, std::string(5000, 'x'));
    ASSERT_TRUE(eventually(loop, [&] { return call.body.bytes.size() == sent * 5000; }));
    EXPECT_EQ(budget.left(), Block::large);
    wait_for(260ms);
  }
}

TEST_F(Http2LinkTest, GivesItsShareOfTheBudgetBackWhenAResponseNoLongerComesFast) {
  options.ping_after = 1h;
  connect();
  backend->acknowledge_settings();
  ConnectionBudget budget(Block::large);
  Call call;
  call.request.response_budget = &budget;
  start(call);
  ASSERT_TRUE(eventually(loop, [&] { return backend->requests() == 1; }));
  backend->begin_answer(1);
  std::size_t sent = 0;
  const auto send = [&](std::size_t size) {
    backend->send(Http2ServerEnd::data, 0, 1, std::string(size, 'x'));
    sent += size;
    const bool ended = !eventually(
        loop, [&] { return call.body.bytes.size() == sent || call.error() != nullptr; }, 5s);
    return !ended && call.error() == nullptr;
  };
  ASSERT_TRUE(send(16 * 1024));
  ASSERT_EQ(budget.left(), 0u);
  ASSERT_TRUE(send(15 * 1024));  // not returned yet: less than half of the wide window
  wait_for(5100ms);

  ASSERT_TRUE(send(1));  // from here on 48 KiB are not returned to the backend
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(send(16 * 1024));
  EXPECT_EQ(budget.left(), 0u) << "the backend may still send 32 KiB and more unread";
  ASSERT_TRUE(send(16 * 1024));
  EXPECT_EQ(budget.left(), Block::large);

  for (int i = 0; i < 40; ++i) ASSERT_TRUE(send(8 * 1024)) << i;  // its window goes on opening
  EXPECT_EQ(budget.left(), Block::large);
}

TEST_F(Http2LinkTest, SaysWhetherTheBackendHasEndedItInOrder) {
  constexpr std::uint8_t no_error = 0;
  constexpr std::uint8_t internal_error = 2;
  constexpr std::uint8_t enhance_your_calm = 11;
  for (const std::optional<std::uint8_t> code :
       {std::optional(no_error), std::optional(enhance_your_calm), std::optional(internal_error),
        std::optional<std::uint8_t>()}) {
    connect();
    Call call;
    start(call);
    ASSERT_TRUE(eventually(loop, [&] { return backend->requests() == 1; }));
    if (code) backend->go_away(1, *code);
    backend->peer().close();

    ASSERT_TRUE(fails(call));
    EXPECT_EQ(call.error()->fault, Fault::backend_closed);
    EXPECT_EQ(link->ended_in_order(), code && *code != internal_error);
  }
}

TEST_F(Http2LinkTest, HasNotEndedInOrderIfTheBackendBreaksTheProtocol) {
  connect();
  Call call;
  start(call);
  ASSERT_TRUE(eventually(loop, [&] { return backend->requests() == 1; }));
  backend->go_away(1, 0);
  backend->send(Http2ServerEnd::ping, 0, 0, "short");

  ASSERT_TRUE(fails(call));
  EXPECT_FALSE(link->ended_in_order());
}

TEST_F(Http2LinkTest, NotesWhetherTheBackendHasResetTheStream) {
  constexpr std::uint8_t internal_error = 2;
  for (const bool resets : {false, true}) {
    connect();
    Call call;
    start(call);
    ASSERT_TRUE(eventually(loop, [&] { return backend->requests() == 1; }));
    if (resets) backend->reset(1, internal_error);
    backend->go_away(1, 0);
    backend->peer().close();

    ASSERT_TRUE(fails(call));
    EXPECT_EQ(call.request.info.outcome.stream_reset, resets);
    EXPECT_EQ(call.error()->reset_code.has_value(), resets);
  }
}

TEST_F(Http2LinkTest, DoesNotBlameABackendThatTiresOfAPausedUpload) {
  constexpr std::uint8_t internal_error = 2;
  for (const bool whole : {false, true}) {
    for (const bool resets : {false, true}) {
      connect();
      auto feed = std::make_shared<BodyFeed>(loop);
      Call call;
      call.request.body = std::make_unique<ScriptedBody>(feed);
      feed->push("x");
      start(call);
      ASSERT_TRUE(eventually(loop, [&] { return backend->count(Http2ServerEnd::data) == 1; }));
      if (whole) {
        feed->end();
        ASSERT_TRUE(
            eventually(loop, [&] { return call.request.info.timings.uploaded != Instant{}; }));
      }
      wait_for(150ms);
      if (resets) {
        backend->reset(1, internal_error);
      } else {
        backend->peer().close();
      }

      ASSERT_TRUE(fails(call));
      EXPECT_EQ(call.error()->fault, Fault::backend_closed);
      EXPECT_EQ(call.error()->side, Side::backend) << "it may be sent to another one";
      EXPECT_EQ(call.error()->awaited_client, !whole);
    }
  }
}

TEST_F(Http2LinkTest, DoesNotBlameABackendThatTiresOfASlowUpload) {
  options.ping_after = 10s;
  constexpr std::uint8_t internal_error = 2;
  for (const bool resets : {false, true}) {
    connect();
    auto feed = std::make_shared<BodyFeed>(loop);
    Call call;
    call.request.body = std::make_unique<ScriptedBody>(feed);
    start(call);
    const Instant began = Clock::now();
    while (Clock::now() - began < 700ms) {
      feed->push("x");
      wait_for(20ms);
    }
    if (resets) {
      backend->reset(1, internal_error);
    } else {
      backend->peer().close();
    }

    ASSERT_TRUE(fails(call));
    EXPECT_EQ(call.error()->fault, Fault::backend_closed);
    EXPECT_TRUE(call.error()->awaited_client);
  }
}

TEST_F(Http2LinkTest, NotesThatAnIdleResponseWaitsForItsClient) {
  options.ping_after = 10s;
  options.idle_timeout = 150ms;
  for (const bool whole : {false, true}) {
    connect();
    auto feed = std::make_shared<BodyFeed>(loop);
    Call call;
    call.request.body = std::make_unique<ScriptedBody>(feed);
    feed->push("x");
    if (whole) feed->end();
    auto sending = link->send(call.request);
    ASSERT_TRUE(eventually(loop, [&] { return backend->requests() == 1; }));
    backend->begin_answer(1);
    backend->send(Http2ServerEnd::data, 0, 1, "abc");

    ASSERT_TRUE(eventually(loop, [&] { return sending.ready(); }));
    auto response = sending.take();
    ASSERT_TRUE(response.ok());
    auto collecting = collect(*response->body, call.body);

    ASSERT_TRUE(fails(call));
    EXPECT_EQ(call.error()->fault, Fault::idle_timeout);
    EXPECT_EQ(dynamic_cast<LinkBody&>(*response->body).awaited_client(), !whole);
  }
}

TEST_F(Http2LinkTest, NotesThatABackendTiredOfAPausedReader) {
  options.ping_after = 10s;
  constexpr std::uint8_t internal_error = 2;
  for (const bool resets : {false, true}) {
    for (const bool pauses : {false, true}) {
      connect();
      Request request{.method = "GET", .authority = "a", .path = "/"};
      auto sending = link->send(request);
      ASSERT_TRUE(eventually(loop, [&] { return backend->requests() == 1; }));
      backend->begin_answer(1);
      backend->send(Http2ServerEnd::data, 0, 1, "abc");
      ASSERT_TRUE(eventually(loop, [&] { return sending.ready(); }));
      auto response = sending.take();
      ASSERT_TRUE(response.ok());
      auto first = response->body->read();
      ASSERT_TRUE(eventually(loop, [&] { return first.ready(); }));
      ASSERT_TRUE(first.take().ok());

      Task<Result<Chunk>> next;
      if (!pauses) next = response->body->read();
      wait_for(150ms);
      if (resets) {
        backend->reset(1, internal_error);
      } else {
        backend->peer().close();
      }
      drain_loop(loop);
      if (pauses) next = response->body->read();

      ASSERT_TRUE(eventually(loop, [&] { return next.ready(); }));
      auto broken = next.take();
      ASSERT_FALSE(broken.ok());
      EXPECT_EQ(broken.error().fault, Fault::backend_closed);
      EXPECT_EQ(dynamic_cast<LinkBody&>(*response->body).awaited_client(), pauses);
    }
  }
}

TEST_F(Http2LinkTest, BlamesABackendThatEndsALongUpload) {
  constexpr std::uint8_t internal_error = 2;
  for (const bool resets : {false, true}) {
    bool awaited_client = true;
    for (int i = 0; i < 5 && awaited_client; ++i) {  // on a busy machine it may wait for long
      connect();
      auto feed = std::make_shared<BodyFeed>(loop);
      Call call;
      call.request.body = std::make_unique<ScriptedBody>(feed);
      feed->push("x");
      start(call);
      ASSERT_TRUE(eventually(loop, [&] { return backend->count(Http2ServerEnd::data) == 1; }));
      wait_for(150ms);
      feed->push("y");
      ASSERT_TRUE(eventually(loop, [&] { return backend->count(Http2ServerEnd::data) == 2; }));
      if (resets) {
        backend->reset(1, internal_error);
      } else {
        backend->peer().close();
      }

      ASSERT_TRUE(fails(call));
      awaited_client = call.error()->awaited_client;
    }
    EXPECT_FALSE(awaited_client);
  }
}

TEST_F(Http2LinkTest, LetsARequestBeRepeatedThatChangesNothing) {
  options.ping_after = 1s;
  connect();
  serve_one();
  wait_for(5ms);
  Call get;
  Call post;
  get.request.method = "GET";
  start(get);
  start(post);

  ASSERT_TRUE(fails(get) && fails(post));

  EXPECT_TRUE(get.error()->idle_close_race);
  EXPECT_FALSE(post.error()->idle_close_race);
}

TEST_F(Http2LinkTest, DoesNotAnnoyAGrpcServerThatTakesLong) {
  options.ping_after = 20ms;
  connect();
  Call call;
  start(call);
  for (std::size_t pings = 1; pings <= 2; ++pings) {
    ASSERT_TRUE(eventually(loop, [&] { return backend->count(Http2ServerEnd::ping) == pings; }));
    backend->answer_ping();
  }
  const std::size_t before = backend->count(Http2ServerEnd::settings);

  for (std::size_t probes = 1; probes <= 4; ++probes) {
    ASSERT_TRUE(eventually(
        loop, [&] { return backend->count(Http2ServerEnd::settings) == before + probes; }));
    backend->acknowledge_settings();
  }

  EXPECT_EQ(backend->count(Http2ServerEnd::ping), 2u);
  EXPECT_EQ(call.error(), nullptr);
  EXPECT_TRUE(eventually(loop, [&] { return link->available_capacity() > 0; }));
}

TEST_F(Http2LinkTest, FindsABackendThatHangsWhenItsStreamsHaveBeenQuietForLong) {
  options.ping_after = 20ms;
  connect();
  auto feed = std::make_shared<BodyFeed>(loop);
  Call call;
  call.request.body = std::make_unique<ScriptedBody>(feed);
  feed->push("hello");
  start(call);
  ASSERT_TRUE(eventually(loop, [&] { return backend->requests() == 1; }));
  backend->begin_answer(1);
  backend->send(Http2ServerEnd::data, 0, 1, "hello");
  for (std::size_t pings = 1; pings <= 2; ++pings) {
    ASSERT_TRUE(eventually(loop, [&] { return backend->count(Http2ServerEnd::ping) == pings; }));
    backend->answer_ping();
  }

  feed->push("are you there?");

  ASSERT_TRUE(eventually(loop, [&] { return call.error() != nullptr; }, 5s));
  EXPECT_EQ(call.error()->detail, "the backend does not answer pings");
  EXPECT_FALSE(call.error()->awaited_client);
}

TEST_F(Http2LinkTest, CountsARequestWhileItsBackendAwaitsTheClient) {
  connect();
  SharedCount waiting;
  auto feed = std::make_shared<BodyFeed>(loop);
  Call call;
  call.request.awaiting_clients = &waiting;
  call.request.body = std::make_unique<ScriptedBody>(feed);
  feed->push("x");
  start(call);
  ASSERT_TRUE(eventually(loop, [&] { return backend->count(Http2ServerEnd::data) == 1; }));
  EXPECT_TRUE(eventually(loop, [&] { return waiting.value() == 1; }));

  feed->push(std::string(100 * 1024, 'x'));  // more than the window that the backend has opened
  EXPECT_TRUE(eventually(loop, [&] { return waiting.value() == 0; }));
  wait_for(50ms);
  EXPECT_EQ(waiting.value(), 0u);
}

TEST_F(Http2LinkTest, CountsARequestNoLongerThanItLasts) {
  connect();
  SharedCount waiting;
  auto feed = std::make_shared<BodyFeed>(loop);
  Call call;
  call.request.awaiting_clients = &waiting;
  call.request.body = std::make_unique<ScriptedBody>(feed);
  auto sending = run(*link, call);
  ASSERT_TRUE(eventually(loop, [&] { return waiting.value() == 1; }));

  sending.drop();

  EXPECT_EQ(waiting.value(), 0u);
}

TEST_F(Http2LinkTest, IsNotPingedWhileTheBackendSends) {
  options.ping_after = 1s;  // a busy machine may be late with the next token
  connect();
  Call call;
  start(call);
  ASSERT_TRUE(eventually(loop, [&] { return backend->requests() == 1; }));
  backend->begin_answer(1);

  for (int i = 0; i < 15; ++i) {
    backend->send(Http2ServerEnd::data, 0, 1, "token");
    wait_for(100ms);
  }

  EXPECT_EQ(backend->count(Http2ServerEnd::ping), 0u);
}

TEST_F(Http2LinkTest, PingsAtOnceWhenItIsSuspected) {
  options.ping_after = 1h;
  connect();
  Call call;
  start(call);
  ASSERT_TRUE(eventually(loop, [&] { return backend->requests() == 1; }));

  link->suspect(Duration::max());

  EXPECT_TRUE(fails(call));
  EXPECT_EQ(call.error()->detail, "the backend does not answer pings");
}

TEST_F(Http2LinkTest, AppliesTheFirstByteTimeoutUntilTheReaderHasTheBeginning) {
  options.first_byte_timeout = 300ms;
  options.idle_timeout = 1h;
  connect();
  Request request{.method = "GET", .authority = "a", .path = "/"};
  auto sending = link->send(request);
  ASSERT_TRUE(eventually(loop, [&] { return backend->requests() == 1; }));
  backend->begin_answer(1);
  backend->send(Http2ServerEnd::data, 0, 1, ":\n");
  ASSERT_TRUE(eventually(loop, [&] { return sending.ready(); }));
  auto response = sending.take();
  ASSERT_TRUE(response.ok());
  auto comment = response->body->read();
  ASSERT_TRUE(eventually(loop, [&] { return comment.ready(); }));
  EXPECT_EQ(comment.take()->bytes, ":\n");

  dynamic_cast<LinkBody&>(*response->body).await_beginning();
  auto next = response->body->read();

  ASSERT_TRUE(eventually(loop, [&] { return next.ready(); }));
  auto failed = next.take();
  ASSERT_FALSE(failed.ok());
  EXPECT_EQ(failed.error().fault, Fault::first_byte_timeout);
}

TEST_F(Http2LinkTest, ToleratesLessSilenceWhileItIsSuspected) {
  options.ping_after = options.ping_timeout = 1h;
  connect();
  Call waiting;
  Call streaming;
  start(waiting);
  start(streaming);
  ASSERT_TRUE(eventually(loop, [&] { return backend->requests() == 2; }));
  backend->begin_answer(3);
  backend->send(Http2ServerEnd::data, 0, 3, "token");
  ASSERT_TRUE(eventually(loop, [&] { return streaming.body.bytes == "token"; }));

  link->suspect(300ms);
  backend->answer_ping();
  wait_for(150ms);
  EXPECT_EQ(waiting.error(), nullptr);

  ASSERT_TRUE(fails(waiting) && fails(streaming));
  EXPECT_EQ(waiting.error()->fault, Fault::first_byte_timeout);
  EXPECT_EQ(streaming.error()->fault, Fault::idle_timeout);
}

}  // namespace
}  // namespace evenkeel
