// Requests for a part of a pool's backends, which a split names by labels.
#include "evenkeel/pool/subset.h"

#include <gtest/gtest.h>

#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "evenkeel/base/loop.h"
#include "pool/versioned_pool.h"

namespace evenkeel::testing {
namespace {

using namespace std::chrono_literals;

constexpr Duration patience = 10s;  // reached only by a failing test

TEST(SubsetSpec, NamesItsLabels) {
  EXPECT_EQ(v7.name(), "version=v7");
  EXPECT_EQ((SubsetSpec{.any_of = {{{"version", "v7"}, {"gpu", "h100"}}}}.name()),
            "gpu=h100,version=v7");
  EXPECT_EQ(both.name(), "version=v7 or version=v8");
}

TEST(SubsetSpec, TakesBackendsWithAllLabelsOfOneChoice) {
  BackendSpec backend;
  EXPECT_FALSE(v7.contains(backend));
  EXPECT_TRUE(SubsetSpec{}.contains(backend));
  backend.config.labels = {{"version", "v7"}, {"gpu", "a100"}};
  EXPECT_TRUE(v7.contains(backend));
  EXPECT_TRUE(both.contains(backend));
  EXPECT_FALSE(v8.contains(backend));
  EXPECT_FALSE((SubsetSpec{.any_of = {{{"version", "v7"}, {"gpu", "h100"}}}}.contains(backend)));
}

class Subsets : public ::testing::Test {
 protected:
  void given(PoolSpec spec) {
    state_ = PoolState::build(std::move(spec), state_.get());
    state_->activate();
    pool_.emplace(state_, loop_, 1);
  }
  Hint for_subset(const SubsetSpec& subset) {
    Hint hint{.subset = state_->backend_set().number_of(subset)};
    EXPECT_NE(hint.subset, 0u);
    return hint;
  }
  Hint of_session(const SubsetSpec& subset, std::uint64_t key) {
    Hint hint = for_subset(subset);
    hint.session = SessionHint{.key = key};
    hint.session_subset = state_->backend_set().number_of(both);
    return hint;
  }
  /// The version of a request that ends at once; empty: it was refused.
  std::string version(const Hint& hint) {
    auto task = pool_->acquire(hint);
    EXPECT_TRUE(task.ready());
    auto lease = task.take();
    return lease ? lease->backend()->spec().config.labels.at("version") : "";
  }
  SharedBackend& shared(std::size_t number) { return state_->backends()[number]->shared(); }
  std::uint64_t fallbacks(const SubsetSpec& subset) {
    return state_->backend_set().subsets()[state_->backend_set().number_of(subset) - 1].fallbacks();
  }

  Loop loop_;
  std::shared_ptr<PoolState> state_;
  std::optional<Pool> pool_;
};

TEST_F(Subsets, EveryPickerKeepsToThem) {
  for (const std::string& picker : picker_names()) {
    for (const std::size_t count : {4u, 200u}) {
      PoolSpec spec = versioned_pool(count, 2);
      spec.config.picker.name = picker;
      state_ = nullptr;
      given(std::move(spec));

      std::set<BackendPtr> used;
      Hint hint = for_subset(v8);
      for (int i = 0; i < 50; ++i) {
        hint.key = static_cast<std::uint64_t>(i);
        auto lease = pool_->acquire(hint).take();
        ASSERT_TRUE(lease) << picker;
        ASSERT_EQ(lease->backend()->spec().config.labels.at("version"), "v8") << picker;
        used.insert(lease->backend());
      }
      EXPECT_EQ(used.size(), 2u) << picker;
      EXPECT_EQ(fallbacks(v8), 0u);
    }
  }
}

TEST_F(Subsets, OtherRequestsGoAnywhere) {
  PoolSpec spec = versioned_pool(2, 1);
  spec.config.picker.name = "round-robin";
  given(std::move(spec));

  EXPECT_EQ((std::set<std::string>{version({}), version({})}), (std::set<std::string>{"v7", "v8"}));
}

TEST_F(Subsets, OneThatDoesNotServeLeavesItsRequestsToOthers) {
  given(versioned_pool(3, 1));
  shared(2).state.take_out(OutOfRotation::unhealthy);

  EXPECT_EQ(version(for_subset(v8)), "v7");
  EXPECT_EQ(fallbacks(v8), 1u);
  EXPECT_EQ(fallbacks(v7), 0u);

  state_->backends()[2]->put_back(OutOfRotation::unhealthy);
  EXPECT_EQ(version(for_subset(v8)), "v8");
  EXPECT_EQ(fallbacks(v8), 1u);
}

TEST_F(Subsets, ARequestThatHasTriedAllOfOneGoesToOthers) {
  given(versioned_pool(3, 1));
  Hint hint = for_subset(v8);
  hint.excluded.add(state_->backends()[2].get());

  EXPECT_EQ(version(hint), "v7");
  EXPECT_EQ(fallbacks(v8), 1u);
}

TEST_F(Subsets, WithoutAnyBackendThereIsNone) {
  given(versioned_pool(2, 1));
  shared(0).state.take_out(OutOfRotation::unhealthy);
  shared(1).state.take_out(OutOfRotation::unhealthy);

  auto lease = pool_->acquire(for_subset(v8)).take();

  ASSERT_FALSE(lease);
  EXPECT_EQ(lease.error().fault, Fault::no_backend);
}

TEST_F(Subsets, AFullOneIsWaitedFor) {
  given(versioned_pool(3, 1, 1));
  auto held = pool_->acquire(for_subset(v8)).take();
  auto waiting = pool_->acquire(for_subset(v8));
  EXPECT_FALSE(waiting.ready());

  // A slot of another version is none for it, though it waits first.
  EXPECT_EQ(version(for_subset(v7)), "v7");
  auto other = pool_->acquire(for_subset(v7)).take();
  ASSERT_TRUE(other);
  other->release();
  EXPECT_FALSE(waiting.ready());
  held->release();

  ASSERT_TRUE(loop_.run_until([&] { return waiting.ready(); }, Clock::now() + patience));
  auto lease = waiting.take();
  ASSERT_TRUE(lease);
  EXPECT_EQ(lease->backend()->spec().config.labels.at("version"), "v8");
}

TEST_F(Subsets, OneThatGoesDownSendsItsQueueToOthers) {
  given(versioned_pool(2, 1, 1));
  auto held = pool_->acquire(for_subset(v8)).take();
  auto waiting = pool_->acquire(for_subset(v8));
  ASSERT_FALSE(waiting.ready());

  shared(1).state.take_out(OutOfRotation::unhealthy);

  ASSERT_TRUE(loop_.run_until([&] { return waiting.ready(); }, Clock::now() + patience));
  auto lease = waiting.take();
  ASSERT_TRUE(lease);
  EXPECT_EQ(lease->backend()->spec().config.labels.at("version"), "v7");
  EXPECT_EQ(fallbacks(v8), 1u);
}

TEST_F(Subsets, KeepTheirCountersAcrossVersionsOfThePool) {
  given(versioned_pool(2, 1));
  shared(1).state.take_out(OutOfRotation::unhealthy);
  version(for_subset(v8));

  PoolSpec spec = versioned_pool(4, 2);
  spec.subsets = {both, v8};  // another order
  given(std::move(spec));

  EXPECT_EQ(state_->backend_set().number_of(v7), 0u);
  EXPECT_EQ(fallbacks(v8), 1u);
  EXPECT_EQ(version(for_subset(v8)), "v8");  // the backend that was added
}

TEST_F(Subsets, APinnedSessionStaysWithinTheSplit) {
  PoolSpec spec = versioned_pool(4, 2);
  spec.config.affinity = AffinityConfig{};
  given(std::move(spec));
  ASSERT_EQ(version(of_session(v8, 1)), "v8");

  // Other shares, or a cookie of which the split does not know.
  EXPECT_EQ(version(of_session(v7, 1)), "v8");
  EXPECT_EQ(version(of_session(v7, 2)), "v7");

  // The split has no share for v8 any more.
  Hint rolled_back = of_session(v7, 1);
  rolled_back.session_subset = state_->backend_set().number_of(v7);
  EXPECT_EQ(version(rolled_back), "v7");
  EXPECT_EQ(version(of_session(v8, 1)), "v7");
}

TEST_F(Subsets, NoSplitMovesASequence) {
  PoolSpec spec = versioned_pool(4, 2);
  spec.config.affinity = AffinityConfig{};
  given(std::move(spec));
  Hint sequence = of_session(v8, 1);
  sequence.session->has_state = true;
  ASSERT_EQ(version(sequence), "v8");

  sequence.subset = sequence.session_subset = state_->backend_set().number_of(v7);

  EXPECT_EQ(version(sequence), "v8");
}

TEST_F(Subsets, ASessionWhoseVersionDoesNotServeIsPinnedElsewhere) {
  PoolSpec spec = versioned_pool(2, 1);
  spec.config.affinity = AffinityConfig{};
  given(std::move(spec));
  shared(1).state.take_out(OutOfRotation::unhealthy);
  EXPECT_EQ(version(of_session(v8, 1)), "v7");

  state_->backends()[1]->put_back(OutOfRotation::unhealthy);

  EXPECT_EQ(version(of_session(v8, 1)), "v7");
  EXPECT_EQ(version(of_session(v8, 2)), "v8");
}

}  // namespace
}  // namespace evenkeel::testing
