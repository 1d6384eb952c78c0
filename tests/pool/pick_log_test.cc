// What pools record of picks that are to be explained.
#include "evenkeel/pool/pick_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "evenkeel/base/loop.h"
#include "pool/some_pool.h"

namespace evenkeel::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class RecordedPicks : public ::testing::Test {
 protected:
  void given(std::size_t backends, const std::string& picker, std::uint32_t limit = 0) {
    PoolSpec spec = some_pool(backends, limit);
    spec.config.picker.name = picker;
    state_ = PoolState::build(std::move(spec));
    state_->activate();
    pool_.emplace(state_, loop_, 1);
  }
  Task<Result<Lease>> acquire(std::string_view name) {
    Hint hint;
    hint.explained_id = name;
    return pool_->acquire(hint);
  }
  Lease place(std::string_view name) {
    auto lease = acquire(name).take();
    EXPECT_TRUE(lease);
    return std::move(*lease);
  }
  PickRecord only(std::string_view name) {
    const auto records = state_->picks().find(name);
    EXPECT_THAT(records, SizeIs(1));
    return records.empty() ? PickRecord{} : records.front();
  }

  Loop loop_;
  std::shared_ptr<PoolState> state_;
  std::optional<Pool> pool_;
};

TEST_F(RecordedPicks, SayWhoWasLookedAtWithWhatCounts) {
  given(3, "least-connections");
  const Lease first = place("");
  const Lease second = place("");
  state_->backends()[2]->state().take_out(OutOfRotation::draining);

  const Lease third = place("asked");
  const PickRecord record = only("asked");

  EXPECT_THAT(state_->picks().find(""), IsEmpty());
  EXPECT_EQ(record.backend, third.backend()->id());
  EXPECT_EQ(record.how, "picked");
  EXPECT_EQ(record.considered, 3u);
  ASSERT_THAT(record.candidates, SizeIs(3));
  EXPECT_EQ(record.candidates[0].backend, third.backend()->id());
  for (const PickCandidate& each : record.candidates) {
    const bool is_out = each.backend == state_->backends()[2]->id();
    EXPECT_EQ(each.state, is_out ? "out" : "open") << each.backend;
    EXPECT_EQ(each.cost, is_out ? std::nullopt : std::optional(each.in_flight + 1.0));
  }
}

TEST_F(RecordedPicks, OfALargePoolKnowTheCostOfThoseThatWereDrawn) {
  given(100, "least-connections");
  const Lease lease = place("asked");
  const PickRecord record = only("asked");

  const auto costs = std::ranges::count_if(
      record.candidates, [](const PickCandidate& each) { return each.cost.has_value(); });
  EXPECT_EQ(costs, 2);
  EXPECT_EQ(record.considered, 100u);
  EXPECT_THAT(record.candidates, SizeIs(PickRecord::max_candidates));
  EXPECT_EQ(record.candidates[0].backend, lease.backend()->id());
}

TEST_F(RecordedPicks, OfPickersWithoutCostsSayWhoWasChosen) {
  given(2, "round-robin");
  const Lease lease = place("asked");
  const PickRecord record = only("asked");

  EXPECT_EQ(record.backend, lease.backend()->id());
  EXPECT_EQ(record.candidates[0].cost, std::nullopt);
  EXPECT_THAT(compact_text(record, "round-robin"),
              HasSubstr("picker=round-robin, how=picked, waited=0.000, of=2, c1=\"" +
                        lease.backend()->id() + "\";state=open;in_flight=0;weight=1"));
}

TEST_F(RecordedPicks, SayThatARequestWaited) {
  given(1, "least-connections", 1);
  Lease first = place("");
  auto waiting = acquire("asked");
  EXPECT_FALSE(waiting.ready());
  EXPECT_THAT(state_->picks().find("asked"), IsEmpty());

  first.release();
  ASSERT_TRUE(
      loop_.run_until([&] { return waiting.ready(); }, Clock::now() + std::chrono::seconds(10)));

  EXPECT_EQ(only("asked").how, "waited");
  EXPECT_GT(only("asked").waited, Duration{});
  EXPECT_EQ(only("asked").candidates[0].state, "open");
  EXPECT_EQ(only("asked").candidates[0].in_flight, 0u);
}

TEST_F(RecordedPicks, AreForgottenInTheEnd) {
  given(1, "least-connections");
  for (std::size_t i = 0; i <= PickLog::capacity; ++i) place("r" + std::to_string(i)).release();

  EXPECT_THAT(state_->picks().find("r0"), IsEmpty());
  EXPECT_THAT(state_->picks().find("r1"), SizeIs(1));
}

}  // namespace
}  // namespace evenkeel::testing
