#include "evenkeel/filter/spliced_body.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <string_view>

#include "evenkeel/filter/replay_body.h"
#include "wire/scripted_body.h"

namespace evenkeel {
namespace {

constexpr ReplayBody::Limits limits{.body_bytes = 1000, .worker_bytes = 100'000};

class SplicedBodyTest : public ::testing::Test {
 protected:
  /// The bytes in chunks of `size`, then the end.
  void feed_in_chunks(std::string_view bytes, std::size_t size) {
    feed = std::make_shared<BodyFeed>(loop);
    for (; bytes.size() > size; bytes.remove_prefix(size))
      feed->push(std::string(bytes.substr(0, size)));
    if (!bytes.empty()) feed->push(std::string(bytes));
    feed->end();
  }
  std::string read_all(Body& body) {
    Collected all;
    Task<void> reading = collect(body, all);
    EXPECT_TRUE(reading.ready() && all.done && !all.error);
    return all.bytes;
  }

  Loop loop;
  ReplayMetrics metrics;
  HeldBodies held{loop, metrics, nullptr};
  RequestIdentity identity;
  std::shared_ptr<BodyFeed> feed;
};

TEST_F(SplicedBodyTest, ReplacesAndInsertsWhereverChunksEnd) {
  for (std::size_t size = 1; size <= 12; ++size) {
    feed_in_chunks("0123456789ab", size);
    feed->length = 12;
    SplicedBody body(std::make_unique<ScriptedBody>(feed),
                     {{{1, 1}, "<in>"}, {{3, 6}, "<new>"}, {{6, 7}, ""}, {{11, 12}, "<end>"}});
    EXPECT_EQ(body.length(), 12 + 4 + 5 - 3 - 1 + 5 - 1U);
    EXPECT_EQ(read_all(body), "0<in>12<new>789a<end>") << "chunks of " << size;
  }
}

TEST_F(SplicedBodyTest, GivesTheSameBytesAgainAfterRewind) {
  feed_in_chunks("0123456789", 4);
  SplicedBody body(
      std::make_unique<ReplayBody>(std::make_unique<ScriptedBody>(feed), limits, held, identity),
      {{{2, 5}, "x"}});
  ASSERT_EQ(body.read().take()->bytes, "01");
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(body.rewind());
    EXPECT_EQ(read_all(body), "01x56789");
  }
  body.rewind();
  EXPECT_EQ(read_all(*body.release()), "0123456789");
}

TEST_F(SplicedBodyTest, MakesAnEditOnlyWhileItApplies) {
  feed_in_chunks("0123456789", 4);
  feed->length = 10;
  bool applies = false;
  SplicedBody body(
      std::make_unique<ReplayBody>(std::make_unique<ScriptedBody>(feed), limits, held, identity),
      {{{1, 1}, "<in>", &applies}, {{2, 3}, "x"}, {{9, 10}, "y", &applies}});
  EXPECT_EQ(body.length(), 10U);
  EXPECT_EQ(read_all(body), "01x3456789");
  ASSERT_TRUE(body.rewind());
  applies = true;
  EXPECT_EQ(body.length(), 14U);
  EXPECT_EQ(read_all(body), "0<in>1x345678y");
  ASSERT_TRUE(body.rewind());
  applies = false;
  EXPECT_EQ(read_all(body), "01x3456789");
}

TEST_F(SplicedBodyTest, PassesErrorsOn) {
  feed = std::make_shared<BodyFeed>(loop);
  feed->push("01");
  feed->fail({.fault = Fault::client_gone});
  SplicedBody body(std::make_unique<ScriptedBody>(feed), {{{1, 1}, "x"}});
  Collected all;
  Task<void> reading = collect(body, all);
  ASSERT_TRUE(all.error);
  EXPECT_EQ(all.bytes, "0x1");
}

}  // namespace
}  // namespace evenkeel
