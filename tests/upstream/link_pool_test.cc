#include "evenkeel/upstream/link_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>

#include "evenkeel/http/message.h"
#include "upstream/scripted_server.h"
#include "wire/http2_server_end.h"
#include "wire/peer.h"

namespace evenkeel {
namespace {

using namespace std::chrono_literals;

class LinkPools : public testing::Test {
 protected:
  LinkPools() : server(loop) { remake({}); }

  void remake(LinkPoolOptions options) {
    pool.emplace(loop, std::vector<Endpoint>{server.endpoint()}, options, metrics);
  }
  Result<LinkLease> acquired(LinkPool::LinkChoice choice = LinkPool::LinkChoice::any) {
    return finish(pool->acquire(choice));
  }
  template <class T>
  T finish(Task<T> task) {
    EXPECT_TRUE(eventually(loop, [&] { return task.ready(); }));
    return task.take();
  }
  /// A request and its response over this link; the connection is the server's `number`th.
  void exchange(LinkLease& lease, std::size_t number) {
    Request request{.method = "GET", .authority = "gpu:8000", .path = "/"};
    auto pending = lease->send(request);
    server.connection(number).read_head();
    server.connection(number).send("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
    auto response = finish(std::move(pending));
    ASSERT_TRUE(response.ok());
    if (response->body == nullptr) return;
    auto chunk = finish(response->body->read());
    EXPECT_TRUE(chunk.ok() && chunk->last);
  }

  Loop loop;
  ScriptedServer server;
  BackendMetrics metrics;
  std::optional<LinkPool> pool;
};

TEST_F(LinkPools, GiveAnIdleLinkToTheNextRequest) {
  {
    auto first = acquired();
    ASSERT_TRUE(first.ok());
    exchange(*first, 0);
    EXPECT_EQ(metrics.links_busy.value(), 1);
  }
  EXPECT_EQ(pool->idle(), 1u);
  EXPECT_EQ(metrics.links_idle.value(), 1);

  auto second = acquired();
  exchange(*second, 0);

  EXPECT_EQ(server.accepted(), 1u);
  EXPECT_EQ(pool->idle(), 0u);
}

TEST_F(LinkPools, SayWhetherALeasesConnectionIsNew) {
  {
    auto first = acquired();
    EXPECT_TRUE(first->newly_connected());
    exchange(*first, 0);
  }

  auto kept = acquired();
  LinkLease moved = std::move(*kept);
  auto other = acquired();

  EXPECT_FALSE(moved.newly_connected());
  EXPECT_TRUE(other->newly_connected());
}

TEST_F(LinkPools, OpenALinkForEachOfTwoRequestsAtATime) {
  auto first = acquired();
  auto second = acquired();
  ASSERT_TRUE(first.ok() && second.ok());

  exchange(*first, 0);
  exchange(*second, 1);

  EXPECT_EQ(server.accepted(), 2u);
}

TEST_F(LinkPools, OpenANewLinkWhereOneIsWanted) {
  {
    auto first = acquired();
    exchange(*first, 0);
  }

  auto fresh = acquired(LinkPool::LinkChoice::fresh);
  exchange(*fresh, 1);

  EXPECT_EQ(pool->idle(), 1u);
}

TEST_F(LinkPools, ForgetAnIdleLinkThatTheServerCloses) {
  {
    auto first = acquired();
    exchange(*first, 0);
  }

  server.connection(0).close();

  EXPECT_TRUE(eventually(loop, [&] { return pool->idle() == 0; }));
  EXPECT_EQ(metrics.links_idle.value(), 0);
}

TEST_F(LinkPools, CloseLinksThatHaveBeenIdleForTooLong) {
  remake({.keep_alive = {.idle = 50ms}});
  {
    auto first = acquired();
    exchange(*first, 0);
  }
  EXPECT_EQ(pool->idle(), 1u);

  EXPECT_TRUE(eventually(loop, [&] { return server.connection(0).ended(); }));
  EXPECT_EQ(pool->idle(), 0u);
}

TEST_F(LinkPools, KeepNoMoreIdleLinksThanAllowed) {
  remake({.keep_alive = {.max_idle = 1}});
  {
    auto first = acquired();
    auto second = acquired();
    exchange(*first, 0);
    exchange(*second, 1);
  }

  EXPECT_EQ(pool->idle(), 1u);
}

TEST_F(LinkPools, KeepNoLinkWhoseResponseIsUnfinished) {
  {
    auto lease = acquired();
    ASSERT_TRUE(lease.ok());
    Request request{.method = "GET", .authority = "gpu:8000", .path = "/"};
    auto pending = (*lease)->send(request);
    server.connection(0).read_head();
    server.connection(0).send("HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf");
    EXPECT_TRUE(finish(std::move(pending)).ok());
  }

  EXPECT_EQ(pool->idle(), 0u);
  EXPECT_TRUE(eventually(loop, [&] { return server.connection(0).ended(); }));
}

TEST_F(LinkPools, CloseTheirIdleLinksWhenTheyRetire) {
  {
    auto first = acquired();
    auto second = acquired();
    exchange(*first, 0);
    exchange(*second, 1);
  }

  EXPECT_EQ(pool->retire_links(1), 1u);
  EXPECT_EQ(pool->idle(), 1u);
  EXPECT_EQ(pool->retire_links(5), 1u);

  {
    auto third = acquired();
    exchange(*third, 2);
  }
  EXPECT_EQ(pool->idle(), 0u);  // a link that comes back is closed, too
}

TEST_F(LinkPools, FailRequestsOfASuspectedServerAfterLessSilence) {
  auto lease = acquired();
  ASSERT_TRUE(lease.ok());
  Request request{.method = "GET", .authority = "gpu:8000", .path = "/"};
  auto pending = (*lease)->send(request);
  server.connection(0).read_head();

  pool->suspect(50ms);

  auto response = finish(std::move(pending));
  ASSERT_FALSE(response.ok());
  EXPECT_EQ(response.error().fault, Fault::first_byte_timeout);
}

class Http2LinkPools : public LinkPools {
 protected:
  Http2LinkPools() { remake({.protocol = BackendProtocol::http2}); }
  /// Acquires a link, for which the server accepts its connection of this number.
  LinkLease acquired_over(std::size_t number, LinkPool::LinkChoice choice) {
    auto pending = pool->acquire(choice);
    Http2ServerEnd(server.connection(number)).accept();
    auto lease = finish(std::move(pending));
    EXPECT_TRUE(lease.ok());
    return std::move(*lease);
  }
};

TEST_F(Http2LinkPools, TakeTheLinkJustDialledForAFreshOne) {
  LinkLease first = acquired_over(0, LinkPool::LinkChoice::any);

  LinkLease fresh = acquired_over(1, LinkPool::LinkChoice::fresh);

  Request request{.method = "GET", .authority = "gpu:8000", .path = "/"};
  auto pending = fresh->send(request);
  Http2ServerEnd second(server.connection(1));
  EXPECT_TRUE(eventually(loop, [&] { return second.requests() == 1; }));
}

TEST_F(Http2LinkPools, SayWhetherALeasesConnectionIsNew) {
  auto first = pool->acquire();
  auto second = pool->acquire();
  Http2ServerEnd(server.connection(0)).accept();

  EXPECT_TRUE(finish(std::move(first))->newly_connected());
  EXPECT_TRUE(finish(std::move(second))->newly_connected()) << "it waited for the same connection";
  EXPECT_FALSE(acquired()->newly_connected());
}

TEST_F(Http2LinkPools, GiveAnUpgradeALinkOfItsOwnOverHttp1) {
  remake({.protocol = BackendProtocol::automatic});
  LinkLease shared = acquired_over(0, LinkPool::LinkChoice::any);
  EXPECT_TRUE(shared->multiplexed());

  auto own = finish(pool->acquire(LinkPool::LinkChoice::any, LinkPool::LinkProtocol::http1));

  ASSERT_TRUE(own.ok());
  EXPECT_FALSE((*own)->multiplexed());
  exchange(*own, 1);
}

TEST_F(Http2LinkPools, KeepOneUnusedLinkHoweverManyFreshOnesWereOpened) {
  for (std::size_t i = 0; i < 5; ++i) {
    const LinkLease lease = acquired_over(i, LinkPool::LinkChoice::fresh);
  }

  EXPECT_EQ(metrics.links_idle.value(), 1);
  EXPECT_TRUE(eventually(loop, [&] { return server.connection(3).ended(); }));
  EXPECT_FALSE(server.connection(4).ended());
}

TEST_F(Http2LinkPools, ShareOneFreshLinkAmongRequestsThatNeedOneAtATime) {
  auto first = pool->acquire(LinkPool::LinkChoice::fresh);
  auto second = pool->acquire(LinkPool::LinkChoice::fresh);

  Http2ServerEnd(server.connection(0)).accept();

  EXPECT_TRUE(finish(std::move(first)).ok());
  EXPECT_TRUE(finish(std::move(second)).ok());
  EXPECT_EQ(server.accepted(), 1u);
}

TEST_F(LinkPools, ReportThatNoConnectionCanBeMade) {
  LinkPool refused(loop, {closed_endpoint()}, {}, metrics);

  auto lease = finish(refused.acquire());

  ASSERT_FALSE(lease.ok());
  EXPECT_EQ(lease.error().fault, Fault::connect_failed);
  EXPECT_TRUE(lease.error().not_processed);
}

TEST(ResendRule, NeedsAServerThatHasNotProcessedTheRequest) {
  const Request request{.method = "GET", .authority = "a", .path = "/"};

  EXPECT_TRUE(may_resend({.fault = Fault::backend_closed, .not_processed = true}, request));
  EXPECT_TRUE(may_resend({.fault = Fault::backend_closed, .idle_close_race = true}, request));
  EXPECT_FALSE(may_resend({.fault = Fault::backend_closed}, request));
}

TEST(ResendRule, NeedsABodyThatCanBeSentAgain) {
  struct Once final : Body {
    Task<Result<Chunk>> read() override { co_return Chunk{.last = true}; }
  };
  Request request{.method = "POST", .authority = "a", .path = "/"};

  request.body = std::make_unique<Once>();
  EXPECT_FALSE(may_resend({.fault = Fault::backend_closed, .not_processed = true}, request));
  request.body = make_body("{}");
  EXPECT_TRUE(may_resend({.fault = Fault::backend_closed, .not_processed = true}, request));
}

}  // namespace
}  // namespace evenkeel
