// Bodies of one worker that need more memory than there is.
#include "evenkeel/filter/held_bodies.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "evenkeel/config/config.h"
#include "evenkeel/filter/replay_body.h"
#include "evenkeel/http/client_key.h"
#include "evenkeel/stats/label_index.h"
#include "wire/scripted_body.h"

namespace evenkeel {
namespace {

using namespace std::chrono_literals;

constexpr Duration patience = 20s;  // reached only by a failing test
constexpr std::uint64_t mib = 1024UL * 1024;

/// An upload that is to be held whole, as if what decides its place came last.
struct Upload {
  Upload(HeldBodies& held_bodies, Loop& loop, std::string_view address, std::uint64_t worker_bytes)
      : identity{.client = address}, feed(std::make_shared<BodyFeed>(loop)) {
    body = std::make_unique<ReplayBody>(
        std::make_unique<ScriptedBody>(feed),
        ReplayBody::Limits{.body_bytes = mib, .worker_bytes = worker_bytes}, held_bodies, identity);
    holding = hold();
  }
  Task<Result<Done>> hold() {
    while (true) {
      auto chunk = co_await body->receive();
      if (!chunk) co_return std::move(chunk.error());
      const bool is_long = body->size() + chunk->bytes.size() > HeldBody::max_small_body;
      if (!is_long && body->hold(*chunk)) continue;
      auto held = co_await body->hold_all(*chunk);
      if (!held || chunk->last) co_return held;
    }
  }
  void send(std::uint64_t bytes) { feed->push(std::string(bytes, 'x')); }
  bool done() const { return holding.ready(); }
  void leave() {
    holding.drop();
    body.reset();
  }

  RequestIdentity identity;
  std::shared_ptr<BodyFeed> feed;
  std::unique_ptr<ReplayBody> body;
  Task<Result<Done>> holding;
};

class HeldBodiesTest : public ::testing::Test {
 protected:
  Upload& upload(std::string_view address, std::uint64_t length, std::uint64_t sent) {
    Upload& added = uploads.emplace_back(held_bodies, loop, address, worker_bytes);
    added.feed->length = length;
    added.send(sent);
    run(50ms);
    return added;
  }
  void run(Duration duration) {
    const Instant end = Clock::now() + duration;
    loop.run_until([end] { return Clock::now() >= end; }, end);
  }
  bool eventually(const std::function<bool()>& holds) {
    return loop.run_until(holds, Clock::now() + patience);
  }
  static std::uint64_t held_by(const Upload& upload) { return upload.body->size(); }

  static constexpr std::uint64_t worker_bytes = 4 * mib;  // large ones share half
  Loop loop;
  ReplayMetrics metrics;
  MemoryPressureLevel pressure;
  HeldBodies held_bodies{loop, metrics, &pressure};
  std::deque<Upload> uploads;
};

TEST_F(HeldBodiesTest, ABodyThatFindsNoRoomWaitsForThatOfOthers) {
  Upload& first = upload("192.0.2.1", 3 * mib / 2, mib);
  Upload& second = upload("192.0.2.1", 3 * mib / 2, mib);
  EXPECT_EQ(held_by(first), mib);
  EXPECT_EQ(held_by(second), 0U) << "what was promised to the first is not given away";

  first.send(mib / 2);
  first.feed->end();
  ASSERT_TRUE(eventually([&] { return first.done(); }));
  ASSERT_TRUE(first.holding.take());
  first.body.reset();
  ASSERT_TRUE(eventually([&] { return held_by(second) == mib; }));

  second.send(mib / 2);
  second.feed->end();
  ASSERT_TRUE(eventually([&] { return second.done(); }));
  EXPECT_TRUE(second.holding.take());
  second.body.reset();
  EXPECT_EQ(held_bodies.taken(), 0U);
  EXPECT_EQ(metrics.held.value(), 0);
}

TEST_F(HeldBodiesTest, ABodyThatCanNeverBeHeldIsRefusedWithTheKeyThatLimitsIt) {
  Upload& large = upload("192.0.2.1", 3 * mib, mib);

  ASSERT_TRUE(eventually([&] { return large.done(); }));
  const auto result = large.holding.take();
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().fault, Fault::body_too_large);
  EXPECT_NE(result.error().detail.find("limits.held_bodies"), std::string::npos);
}

TEST_F(HeldBodiesTest, TheBodyOfAGreedyClientThatHasStalledLongestEndsForThatOfAnother) {
  Upload& oldest = upload("192.0.2.1", mib, 100'000);
  Upload& newer = upload("192.0.2.1", mib - 200'000, 100'000);
  run(1100ms);
  newer.send(100'000);
  run(50ms);

  Upload& other = upload("192.0.2.2", 300'000, 300'000);
  other.feed->end();

  ASSERT_TRUE(eventually([&] { return oldest.done() && other.done(); }));
  const auto ended = oldest.holding.take();
  ASSERT_FALSE(ended);
  EXPECT_EQ(ended.error().fault, Fault::body_timeout);
  EXPECT_EQ(ended.error().side, Side::client);
  oldest.body.reset();
  EXPECT_TRUE(other.holding.take());
  EXPECT_FALSE(newer.done());
}

TEST_F(HeldBodiesTest, OneBodyDoesNotEndForAnotherOfItsOwnClientWhileItGrows) {
  Upload& first = upload("192.0.2.1", 3 * mib / 2, 100'000);
  Upload& second = upload("192.0.2.1", mib, 100'000);

  for (int i = 0; i < 6; ++i) {
    run(300ms);
    first.send(100'000);
  }

  EXPECT_FALSE(first.done());
  EXPECT_FALSE(second.done());
}

TEST_F(HeldBodiesTest, AClientThatComesBackDoesNotTakeWhatAnotherWaitsFor) {
  Upload& first = upload("192.0.2.1", mib, 100'000);
  Upload& second = upload("192.0.2.1", mib / 2, 100'000);
  Upload& other = upload("192.0.2.2", 3 * mib / 2, 100'000);
  EXPECT_EQ(held_by(other), 0U);

  second.leave();
  Upload& third = upload("192.0.2.1", mib / 2, 100'000);
  EXPECT_EQ(held_by(third), 0U) << "it would find room";

  first.leave();
  ASSERT_TRUE(eventually([&] { return held_by(other) == 100'000U; }));
  EXPECT_EQ(held_by(third), 0U);

  other.leave();
  EXPECT_TRUE(eventually([&] { return held_by(third) == 100'000U; }));
}

TEST_F(HeldBodiesTest, OfClientsThatHoldTheSameTheOneThatWaitsLongestIsFirst) {
  Upload& first = upload("192.0.2.1", 3 * mib / 2, 100'000);
  Upload& other = upload("192.0.2.2", 3 * mib / 2, 100'000);
  Upload& second = upload("192.0.2.1", mib / 2, 100'000);

  first.leave();

  ASSERT_TRUE(eventually([&] { return held_by(other) == 100'000U; }));
  EXPECT_EQ(held_by(second), 0U);
}

TEST_F(HeldBodiesTest, OneThatWaitsForVeryMuchDoesNotHoldUpThoseThatNeedLittle) {
  upload("192.0.2.1", mib / 2, 100'000);
  Upload& large = upload("192.0.2.2", 7 * mib / 4, 100'000);
  EXPECT_EQ(held_by(large), 0U);

  EXPECT_EQ(held_by(upload("192.0.2.3", 80'000, 70'000)), 70'000U);
  EXPECT_EQ(held_by(upload("192.0.2.3", 160'000, 70'000)), 0U) << "together they are not little";
}

TEST_F(HeldBodiesTest, WhereAllWaitForEachOtherTheLastInLineEnd) {
  std::vector<Upload*> greedy;
  for (int i = 0; i < 20; ++i) greedy.push_back(&upload("192.0.2.1", mib, 60'000));
  for (Upload* each : greedy) each->send(60'000);
  run(50ms);
  Upload& other = upload("192.0.2.2", 3 * mib / 2, 60'000);
  other.send(60'000);

  ASSERT_TRUE(eventually([&] {
    for (Upload* each : greedy) {
      if (each->done()) each->leave();
    }
    return held_by(other) == 120'000U;
  }));
  const auto ended = [](const Upload* each) { return each->body == nullptr; };
  EXPECT_LT(std::count_if(greedy.begin(), greedy.end(), ended), 20) << "no more than are needed";
}

TEST_F(HeldBodiesTest, CopiesForRetriesMakeRoomFirst) {
  Upload& sent = upload("192.0.2.1", mib, mib - 100'000);
  sent.send(100'000);
  sent.feed->end();
  ASSERT_TRUE(eventually([&] { return sent.done(); }));
  ASSERT_TRUE(sent.body->rewind());
  for (bool last = false; !last;) last = sent.body->read().take()->last;
  ASSERT_TRUE(sent.body->rewindable());

  Upload& other = upload("192.0.2.2", 3 * mib / 2, 3 * mib / 2);

  EXPECT_EQ(held_by(other), 3 * mib / 2);
  EXPECT_FALSE(sent.body->rewindable());
}

TEST_F(HeldBodiesTest, CountsWhatIsTakenBetweenTwoMeasurementsOfMemory) {
  pressure.set_room(static_cast<std::int64_t>(mib));
  Upload& first = upload("192.0.2.1", 700'000, 700'000);
  Upload& second = upload("192.0.2.1", 700'000, 700'000);
  EXPECT_EQ(held_by(first), 700'000U);
  EXPECT_EQ(held_by(second), 0U);

  pressure.set_room(static_cast<std::int64_t>(2 * mib));  // a measurement
  ASSERT_TRUE(eventually([&] { return held_by(second) == 700'000U; }));
}

TEST_F(HeldBodiesTest, TheBodyOfAClientThatHasGoneLeavesNothing) {
  upload("192.0.2.1", 3 * mib / 2, mib);
  upload("192.0.2.1", 3 * mib / 2, mib);  // it waits

  uploads.clear();

  EXPECT_EQ(held_bodies.taken(), 0U);
  EXPECT_EQ(metrics.held.value(), 0);
}

TEST(ClientKey, IsOfATenantOrAnAddressOrANetworkOfIpv6) {
  EXPECT_EQ(client_key("192.0.2.1"), client_key("192.0.2.1"));
  EXPECT_NE(client_key("192.0.2.1"), client_key("192.0.2.2"));
  EXPECT_EQ(client_key("2001:db8:0:1::1"), client_key("2001:db8:0:1:ffff::9"));
  EXPECT_NE(client_key("2001:db8:0:1::1"), client_key("2001:db8:0:2::1"));
  for (const char* mapped : {"::ffff:192.0.2.1", "::FFFF:c000:201", "0:0:0:0:0:ffff:192.0.2.1"}) {
    EXPECT_EQ(client_key(mapped), client_key("192.0.2.1")) << mapped;
  }

  const RequestIdentity tenant{.client = "192.0.2.1", .tenant = {.name = "acme", .index = 2}};
  const RequestIdentity same{.client = "x", .tenant = {.name = "acme", .index = 2}};
  EXPECT_EQ(client_key(tenant), client_key(same));
  EXPECT_NE(client_key(tenant), client_key("192.0.2.1"));

  // The file names tenants, and this is none of them.
  const RequestIdentity none{.client = "192.0.2.1", .tenant = {.index = LabelIndex::other_tenant}};
  EXPECT_EQ(client_key(none), client_key("192.0.2.1"));
}

}  // namespace
}  // namespace evenkeel
