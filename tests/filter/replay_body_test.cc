#include "evenkeel/filter/replay_body.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "wire/scripted_body.h"

namespace evenkeel {
namespace {

/// A body that a test feeds, with a copy of at most 100 KB.
class ReplayBodyTest : public ::testing::Test {
 protected:
  ReplayBodyTest()
      : body(std::make_unique<ReplayBody>(std::make_unique<ScriptedBody>(feed), limits, held_bodies,
                                          identity)) {}

  Collected read_all() {
    Collected all;
    Task<void> reading = collect(*body, all);
    EXPECT_TRUE(reading.ready());
    return all;
  }

  static constexpr ReplayBody::Limits limits{.body_bytes = 100'000,
                                             .worker_bytes = 64UL * 1024 * 1024};
  Loop loop;
  /// The next bytes, which are held, or lent if there is no room.
  std::string_view hold() {
    auto chunk = body->receive().take();
    if (!body->hold(*chunk)) body->lend(*chunk);
    last = chunk->last;
    return chunk->bytes;
  }
  /// As `body`, with a worker that holds less.
  void with_worker_bytes(std::uint64_t bytes) {
    body = std::make_unique<ReplayBody>(
        std::make_unique<ScriptedBody>(feed),
        ReplayBody::Limits{.body_bytes = limits.body_bytes, .worker_bytes = bytes}, held_bodies,
        identity);
  }

  std::shared_ptr<BodyFeed> feed = std::make_shared<BodyFeed>(loop);
  ReplayMetrics metrics;
  MemoryPressureLevel pressure;
  HeldBodies held_bodies{loop, metrics, &pressure};
  RequestIdentity identity{.client = "192.0.2.1"};
  bool last = false;
  std::unique_ptr<ReplayBody> body;
};

TEST_F(ReplayBodyTest, RepeatsTheBodyAndItsTrailers) {
  const std::string part(30'000, 'x');
  for (int i = 0; i < 3; ++i) feed->push(part);
  feed->trailers.add("a", "b");
  feed->end();

  for (int i = 0; i < 3; ++i) {
    const Collected all = read_all();
    EXPECT_EQ(all.bytes, part + part + part);
    EXPECT_EQ(all.trailers, "a: b\n");
    ASSERT_TRUE(body->rewind());
  }
  EXPECT_EQ(feed->reads, 4) << "the client's body was read once";
  EXPECT_GE(metrics.held.value(), 90'000);
  body.reset();
  EXPECT_EQ(metrics.held.value(), 0);
}

TEST_F(ReplayBodyTest, ContinuesBehindWhatItRepeats) {
  feed->push("one ");
  ASSERT_EQ(body->read().take()->bytes, "one ");

  ASSERT_TRUE(body->rewind());
  feed->push("two");
  feed->end();

  EXPECT_EQ(read_all().bytes, "one two");
}

TEST_F(ReplayBodyTest, RewindsAfterAReadThatWasDropped) {
  feed->push("one ");
  ASSERT_TRUE(body->read().ready());
  {
    const Task<Result<Chunk>> pending = body->read();
    ASSERT_FALSE(pending.ready());
  }  // dropped, as with the link of an attempt that failed
  ASSERT_TRUE(body->rewind());
  feed->push("two");
  feed->end();

  EXPECT_EQ(read_all().bytes, "one two");
}

TEST_F(ReplayBodyTest, BecomesAStreamBeyondItsLimit) {
  feed->push(std::string(60'000, 'x'));
  feed->push(std::string(60'000, 'y'));
  feed->end();

  EXPECT_TRUE(body->rewindable());
  EXPECT_EQ(read_all().bytes.size(), 120'000);
  EXPECT_FALSE(body->rewindable());
  EXPECT_FALSE(body->rewind());
  EXPECT_EQ(metrics.held.value(), 0);
  EXPECT_EQ(metrics.overflows.value(), 1);
}

TEST_F(ReplayBodyTest, BecomesAStreamWhenTheWorkerHoldsTooMuch) {
  with_worker_bytes(1000);
  feed->push("some");
  feed->end();

  EXPECT_EQ(read_all().bytes, "some");
  EXPECT_FALSE(body->rewind());
  EXPECT_EQ(metrics.overflows.value(), 1);
}

TEST_F(ReplayBodyTest, FreesItsCopyWhenMoreArrivesWhileMemoryIsScarce) {
  feed->push("some ");
  ASSERT_EQ(body->read().take()->bytes, "some ");
  EXPECT_GT(metrics.held.value(), 0);

  pressure.set(MemoryPressure::high);
  EXPECT_TRUE(body->rewindable()) << "what is kept costs nothing more";
  feed->push("bytes");
  ASSERT_EQ(body->read().take()->bytes, "bytes");

  EXPECT_FALSE(body->rewindable());
  EXPECT_EQ(metrics.held.value(), 0);
  EXPECT_EQ(metrics.overflows.value(), 1);
}

TEST_F(ReplayBodyTest, FreesItsCopyOnceItIsCommitted) {
  feed->push("some");
  ASSERT_TRUE(body->read().ready());
  EXPECT_GT(metrics.held.value(), 0);

  body->commit(false);

  EXPECT_EQ(metrics.held.value(), 0);
  EXPECT_FALSE(body->rewind());
  feed->push("more");
  feed->end();
  EXPECT_EQ(read_all().bytes, "more");
}

TEST_F(ReplayBodyTest, EndsARepetitionThatIsCommitted) {
  feed->push("some");
  ASSERT_TRUE(body->read().ready());
  ASSERT_TRUE(body->rewind());

  body->commit(false);

  feed->end();
  EXPECT_EQ(read_all().bytes, "some");
  EXPECT_EQ(metrics.held.value(), 0);
}

TEST_F(ReplayBodyTest, KeepsWhatIsStillBeingSentWhenItIsCommitted) {
  feed->push("some");
  feed->end();
  (void)read_all();
  ASSERT_TRUE(body->rewind());
  const std::string_view sending = body->read().take()->bytes;

  body->commit(false);

  Block next_request = Block::take(Block::tiny);
  std::memset(next_request.data(), 'x', next_request.size());
  EXPECT_EQ(sending, "some");
  body.reset();
  EXPECT_EQ(metrics.held.value(), 0);
}

TEST_F(ReplayBodyTest, FreesWhatWasSentWhenItIsCommitted) {
  const std::string part(30'000, 'x');
  for (int i = 0; i < 3; ++i) feed->push(part);
  feed->end();
  (void)read_all();
  const auto held = metrics.held.value();
  ASSERT_TRUE(body->rewind());
  std::string sent(body->read().take()->bytes);
  sent += body->read().take()->bytes;

  body->commit(false);

  EXPECT_GT(metrics.held.value(), 0);
  EXPECT_LT(metrics.held.value(), held);
  EXPECT_EQ(sent + read_all().bytes, part + part + part);
}

/// A body that reads into a block of its own for each chunk, as a long one from a connection does.
class BlockBody final : public Body {
 public:
  BlockBody(std::vector<std::string> chunks, int& taken)
      : chunks_(std::move(chunks)), taken_(taken) {}
  Task<Result<Chunk>> read() override {
    if (!block_) block_ = Block::take(Block::huge);
    const std::string& text = chunks_[next_++];
    std::memcpy(block_.data() + offset, text.data(), text.size());
    return Result<Chunk>(
        Chunk{.bytes = {block_.data() + offset, text.size()}, .last = next_ == chunks_.size()});
  }
  Block take_block() override {
    ++taken_;
    return std::move(block_);
  }

 private:
  static constexpr std::size_t offset = 100;
  std::vector<std::string> chunks_;
  std::size_t next_ = 0;
  Block block_;
  int& taken_;
};

class ReplayBodyOfBlocks : public ReplayBodyTest {
 protected:
  void of_chunks(std::vector<std::string> chunks, std::uint64_t worker_bytes = 64UL << 20) {
    body = std::make_unique<ReplayBody>(
        std::make_unique<BlockBody>(std::move(chunks), taken),
        ReplayBody::Limits{.body_bytes = 1'000'000, .worker_bytes = worker_bytes}, held_bodies,
        identity);
  }
  const std::string part = std::string(200'000, 'x');
  int taken = 0;
};

TEST_F(ReplayBodyOfBlocks, TakesBlocksRatherThanCopyThem) {
  of_chunks({part, "some", part});
  const std::string_view first = body->read().take()->bytes;
  EXPECT_EQ(read_all().bytes, "some" + part);
  EXPECT_EQ(taken, 2) << "a few bytes are copied";

  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(body->rewind());
    const std::string_view again = body->read().take()->bytes;
    EXPECT_EQ(again.data(), first.data());
    EXPECT_EQ(std::string(again) + read_all().bytes, part + "some" + part);
  }
  EXPECT_EQ(metrics.held.value(), 2 * Block::huge);
  body.reset();
  EXPECT_EQ(metrics.held.value(), 0);
}

TEST_F(ReplayBodyOfBlocks, KeepsTheBlockThatIsBeingSentWhenItIsCommitted) {
  of_chunks({part, part});
  (void)body->read().take();
  const std::string_view sending = body->read().take()->bytes;

  body->commit(false);

  Block next_request = Block::take(Block::huge);
  std::memset(next_request.data(), 'y', next_request.size());
  EXPECT_EQ(sending, part);
  EXPECT_EQ(metrics.held.value(), Block::huge);
  body.reset();
  EXPECT_EQ(metrics.held.value(), 0);
}

TEST_F(ReplayBodyOfBlocks, KeepsNoneOfWhatWasSentWhenItIsCommitted) {
  of_chunks({part, part});
  EXPECT_EQ(read_all().bytes, part + part);
  EXPECT_EQ(metrics.held.value(), 2 * Block::huge);

  body->commit(true);

  EXPECT_EQ(metrics.held.value(), 0);
}

TEST_F(ReplayBodyOfBlocks, LendsWhatItHoldsUntilTheNextIsHeld) {
  of_chunks({part, part});
  const std::string_view held = hold();
  body->commit(false);
  EXPECT_EQ(held, part);
  EXPECT_EQ(read_all().bytes, part);
}

TEST_F(ReplayBodyOfBlocks, CopiesWhereMemoryRunsShort) {
  of_chunks({part, part}, 4 * Block::huge);  // half of which is for small bodies
  EXPECT_EQ(read_all().bytes, part + part);
  EXPECT_EQ(taken, 1);
  ASSERT_TRUE(body->rewind());
  EXPECT_EQ(read_all().bytes, part + part);
}

TEST_F(ReplayBodyTest, PassesAnErrorOnAndIsNotRepeated) {
  feed->push("some");
  feed->fail({.fault = Fault::client_gone, .side = Side::client, .detail = {}});

  const Collected all = read_all();

  ASSERT_TRUE(all.error);
  EXPECT_EQ(all.error->fault, Fault::client_gone);
  EXPECT_FALSE(body->rewind());
  EXPECT_EQ(metrics.overflows.value(), 0);
}

TEST_F(ReplayBodyTest, LendsWhatItHeldBeforeItReadsOn) {
  feed->push("one ");
  feed->push("two ");
  EXPECT_EQ(hold(), "one ");
  EXPECT_EQ(hold(), "two ");
  EXPECT_TRUE(body->holds());
  feed->push("three");
  feed->end();

  ASSERT_TRUE(body->rewind());
  EXPECT_EQ(read_all().bytes, "one two three");
  ASSERT_TRUE(body->rewind());
  EXPECT_EQ(read_all().bytes, "one two three");
}

TEST_F(ReplayBodyTest, LosesNothingOfWhatItCannotHold) {
  const std::string half(60'000, 'x');
  const std::string rest(60'000, 'y');
  feed->push(half);
  feed->push(rest);
  feed->end();
  EXPECT_EQ(hold(), half);
  EXPECT_EQ(hold(), rest);
  EXPECT_FALSE(body->holds());
  EXPECT_EQ(metrics.overflows.value(), 1U);

  ASSERT_TRUE(body->rewind());
  EXPECT_EQ(read_all().bytes, half + rest);
  EXPECT_FALSE(body->rewind()) << "the second half is gone";
  EXPECT_EQ(metrics.held.value(), 0);
}

TEST_F(ReplayBodyTest, HoldsTheEndToo) {
  feed->trailers.add("a", "b");
  feed->push("all");
  feed->end();
  hold();
  EXPECT_FALSE(last);
  hold();
  EXPECT_TRUE(last);
  ASSERT_TRUE(body->rewind());
  const Collected all = read_all();
  EXPECT_EQ(all.bytes, "all");
  EXPECT_EQ(all.trailers, "a: b\n");
}

TEST_F(ReplayBodyTest, HoldsOneChunkWhileMemoryIsScarce) {
  pressure.set(MemoryPressure::high);
  feed->push("now");
  feed->end();
  EXPECT_EQ(hold(), "now");
  EXPECT_FALSE(body->holds());
  ASSERT_TRUE(body->rewind());
  EXPECT_EQ(read_all().bytes, "now");
}

TEST_F(ReplayBodyTest, LeavesHalfOfTheMemoryToSmallBodies) {
  with_worker_bytes(150'000);
  feed->push(std::string(60'000, 'x'));
  EXPECT_EQ(hold().size(), 60'000U);
  EXPECT_TRUE(body->holds());
  feed->push(std::string(6'000, 'x'));
  EXPECT_EQ(hold().size(), 6'000U);
  EXPECT_FALSE(body->holds());
}

}  // namespace
}  // namespace evenkeel
