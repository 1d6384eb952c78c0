#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "evenkeel/base/hash.h"
#include "evenkeel/base/rng.h"
#include "picker/common_prefixes.h"
#include "picker/picks.h"

namespace evenkeel::testing {
namespace {

using Blocks = std::vector<std::uint64_t>;

/// Blocks whose hashes depend on what precedes them: `texts` stands for the text of each.
Blocks chain(std::initializer_list<std::uint64_t> texts) {
  Blocks blocks;
  std::uint64_t preceding = 0;
  for (const std::uint64_t text : texts) {
    preceding = hash_of(preceding, text);
    blocks.push_back(preceding);
  }
  return blocks;
}

constexpr std::uint64_t system_prompt = 1;

/// A prompt of `topic` behind the system prompt of all.
Blocks prompt_about(std::uint64_t topic) {
  return chain({system_prompt, system_prompt, topic, topic + 1});
}

class PrefixAffinity : public ::testing::Test {
 protected:
  std::unique_ptr<Picker> picker_over(std::shared_ptr<const Backends> backends,
                                      std::uint64_t seed = 1) const {
    return make_picker({.backends = std::move(backends), .choice = {.name = "prefix-affinity"}},
                       seed);
  }

  /// Other requests of the same clients, each about a topic of its own.
  static void learn(Picker& picker, int requests = 200, std::uint64_t first_topic = 1'000'000) {
    for (int i = 0; i < requests; ++i) {
      picker.key_of({.blocks = prompt_about(first_topic + 2 * static_cast<std::uint64_t>(i))});
    }
  }
};

const BackendPtr* place(Picker& picker, const PromptBeginning& prompt) {
  return picker.pick({.key = picker.key_of(prompt), .now = noon});
}

TEST_F(PrefixAffinity, TakesTheFirstBlockForTheKeyWhereNothingIsCommon) {
  auto picker = picker_over(some_backends(4));
  for (std::uint64_t topic = 100; topic < 1000; ++topic) {
    const Blocks blocks = chain({topic, 1, 2});
    EXPECT_EQ(picker->key_of({.blocks = blocks, .conversation = 7}), blocks[0]);
  }
}

TEST_F(PrefixAffinity, SkipsTheBlocksThatAreCommon) {
  auto picker = picker_over(some_backends(4));
  const Blocks blocks = prompt_about(5);
  EXPECT_EQ(picker->key_of({.blocks = blocks}), blocks[0]) << "common only with itself";

  learn(*picker);

  EXPECT_EQ(picker->key_of({.blocks = blocks}), blocks[2]);
}

TEST_F(PrefixAffinity, KeepsAFamilyTogetherThatOneBackendCanServe) {
  auto picker = picker_over(some_backends(4));  // more than 1.25 / 4 of the requests are common
  Rng rng(2);
  std::map<bool, int> depths[2];
  for (int i = 0; i < 4000; ++i) {
    const std::uint64_t unique = rng() | 1;
    const bool small = i % 5 == 0;  // a fifth; the big family has two fifths
    const bool big = i % 5 == 1 || i % 5 == 2;
    const Blocks blocks = chain({small ? 2 : big ? 4 : unique, unique});
    const auto key = picker->key_of({.blocks = blocks});
    if (i < 1000) continue;
    if (small) ++depths[0][key == blocks[0]];
    if (big) ++depths[1][key == blocks[1]];
  }

  EXPECT_EQ(depths[0][false], 0) << "a fifth belongs to one backend";
  EXPECT_EQ(depths[1][false], 0) << "two fifths are more than a quarter of the load, and its slack";
}

TEST_F(PrefixAffinity, AllowsAHeavyBackendABiggerFamily) {
  auto backends = weighted_backends({1, 9});
  // A family of a third: too much for the light backend, not for the heavy one.
  std::map<std::string, std::set<bool>> kept;
  for (std::uint64_t family = 1; family < 40; ++family) {
    auto fresh = picker_over(backends);
    const Blocks head = chain({family});
    const std::string owner = (*fresh->pick({.key = head[0], .now = noon}))->id();
    for (std::uint64_t i = 0; i < 300; ++i) {
      const Blocks blocks = chain({i % 3 == 0 ? family : 1000 + i, i});
      const auto key = fresh->key_of({.blocks = blocks});
      if (i == 297) kept[owner].insert(key == blocks[0]);
    }
  }

  EXPECT_EQ(kept[(*backends)[0]->id()], std::set<bool>{false});
  EXPECT_EQ(kept[(*backends)[1]->id()], std::set<bool>{true});
}

TEST_F(PrefixAffinity, FallsBackToTheConversationAndThenToTheLeastLoaded) {
  auto backends = some_backends(4);
  auto picker = picker_over(backends);
  learn(*picker);
  const Blocks common = chain({system_prompt, system_prompt});

  EXPECT_EQ(picker->key_of({.blocks = common, .conversation = 77}), 77u);
  EXPECT_EQ(picker->key_of({.conversation = 78}), 78u);
  EXPECT_EQ(picker->key_of({.blocks = common}), std::nullopt);
  EXPECT_EQ(picker->key_of({}), std::nullopt);
  for (std::size_t i = 0; i < 3; ++i) ASSERT_TRUE((*backends)[i]->try_acquire(noon));
  for (int i = 0; i < 20; ++i) EXPECT_EQ(index_of(*backends, place(*picker, {})), 3u);
}

TEST_F(PrefixAffinity, SpreadsAPromptThatEverybodySends) {
  auto picker = picker_over(some_backends(4));
  std::optional<std::uint64_t> key;
  for (int i = 0; i < 100; ++i) key = picker->key_of({.conversation = 77});
  EXPECT_EQ(key, std::nullopt) << "no backend is to have them all";
}

TEST_F(PrefixAffinity, SendsTheTurnsOfAConversationToOneBackend) {
  auto backends = some_backends(8);
  auto picker = picker_over(backends);
  learn(*picker);

  std::set<std::size_t> homes;
  for (std::uint64_t topic = 10; topic < 110; topic += 2) {
    Blocks turns = prompt_about(topic);
    const BackendPtr* home = place(*picker, {.blocks = turns});
    homes.insert(index_of(*backends, home));
    for (int turn = 0; turn < 5; ++turn) {
      turns.push_back(hash_of(turns.back(), 9));
      EXPECT_EQ(place(*picker, {.blocks = turns}), home);
    }
  }

  EXPECT_EQ(homes.size(), 8u) << "the system prompt must not gather them";
}

TEST_F(PrefixAffinity, OfTwoReplicasAgree) {
  auto backends = some_backends(8);
  auto reversed = std::make_shared<Backends>(backends->rbegin(), backends->rend());
  auto one = picker_over(backends, 1);
  auto other = picker_over(reversed, 2);
  learn(*one, 200, 1'000'000);
  learn(*other, 300, 2'000'000);  // it has seen other requests of the same clients

  for (std::uint64_t topic = 10; topic < 1000; topic += 2) {
    const Blocks blocks = prompt_about(topic);
    EXPECT_EQ(*place(*one, {.blocks = blocks}), *place(*other, {.blocks = blocks}));
  }
}

TEST_F(PrefixAffinity, MovesOnlyTheKeysOfABackendThatLeaves) {
  auto backends = some_backends(8);
  auto rest = std::make_shared<Backends>(*backends);
  const BackendPtr gone = rest->back();
  rest->pop_back();
  auto before = picker_over(backends);
  auto after = picker_over(rest);
  learn(*before);
  learn(*after);

  int moved = 0;
  for (std::uint64_t topic = 10; topic < 8010; topic += 2) {
    const Blocks blocks = prompt_about(topic);
    const BackendPtr home = *place(*before, {.blocks = blocks});
    if (home == *place(*after, {.blocks = blocks})) continue;
    ++moved;
    ASSERT_EQ(home, gone);
  }

  EXPECT_NEAR(moved, 4000 / 8, 150);
}

TEST_F(PrefixAffinity, KeepsAHotConversationWithinTheBound) {
  auto backends = some_backends(10);
  auto picker = picker_over(backends);
  for (std::uint32_t held = 0; held < 1000; ++held) {
    const BackendPtr* chosen = picker->pick({.key = 42, .now = noon});
    ASSERT_TRUE((*chosen)->try_acquire(noon));
    EXPECT_LE((*chosen)->slots().in_flight(), std::ceil(1.25 * (held + 1) / 10));
  }
}

TEST_F(PrefixAffinity, SendsARetryElsewhere) {
  auto backends = some_backends(4);
  auto picker = picker_over(backends);
  const Blocks blocks = prompt_about(5);
  Hint hint{.key = picker->key_of({.blocks = blocks}), .now = noon};
  const BackendPtr home = *picker->pick(hint);
  hint.excluded.add(home.get());

  const BackendPtr stand_in = *picker->pick(hint);

  EXPECT_NE(stand_in, home);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(*picker->pick(hint), stand_in);
}

TEST(CommonPrefixes, FindsAShareUnderManyBlocksThatAreSeenOnce) {
  constexpr std::size_t backends = 1000;
  CommonPrefixes prefixes(backends);
  Rng rng(3);
  const std::size_t bytes = prefixes.bytes();
  bool above = false;
  bool below = true;
  for (int request = 0; request < 200'000; ++request) {
    prefixes.begin_request();
    const double kind = rng.unit();
    if (kind < 2.0 / backends) {
      above = prefixes.count(1, 1.0 / backends);
    } else if (kind < 2.4 / backends) {
      below = prefixes.count(2, 1.0 / backends);
    } else {
      prefixes.count(rng(), 1.0 / backends);
    }
  }

  EXPECT_TRUE(above);
  EXPECT_FALSE(below);
  EXPECT_EQ(prefixes.bytes(), bytes);
  EXPECT_LE(bytes, 64u * 1024);
}

TEST(CommonPrefixes, ForgetsWhatIsNoLongerSent) {
  CommonPrefixes prefixes(4);
  const auto send = [&](std::uint64_t block, int requests) {
    bool common = false;
    for (int i = 0; i < requests; ++i) {
      prefixes.begin_request();
      common = prefixes.count(block, 0.3);
    }
    return common;
  };
  EXPECT_TRUE(send(1, 1000));
  send(2, 5000);
  EXPECT_FALSE(send(1, 1));
}

TEST(CommonPrefixes, StaysRightOverAMillionRequests) {
  CommonPrefixes prefixes(4);
  Rng rng(4);
  for (int i = 0; i < 1'000'000; ++i) {
    prefixes.begin_request();
    const bool half = prefixes.count(i % 2 == 0 ? 1 : rng(), 0.3);
    if (i > 100) {
      ASSERT_EQ(half, i % 2 == 0) << i;
    }
  }
}

TEST(CommonPrefixes, KeepsABlockThatIsCloseToTheLimit) {
  CommonPrefixes prefixes(4);
  Rng rng(5);
  bool was = false;
  int changes = 0;
  for (int i = 0; i < 100'000; ++i) {
    prefixes.begin_request();
    if (rng.unit() < 0.31) {
      const bool common = prefixes.count(1, 0.3);
      changes += common != was ? 1 : 0;
      was = common;
    } else {
      prefixes.count(rng(), 0.3);
    }
  }
  EXPECT_TRUE(was);
  EXPECT_EQ(changes, 1);
}

}  // namespace
}  // namespace evenkeel::testing
