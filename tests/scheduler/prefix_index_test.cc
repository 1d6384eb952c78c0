#include "evenkeel/scheduler/prefix_index.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <list>
#include <span>
#include <vector>

#include "evenkeel/base/rng.h"

namespace evenkeel::testing {
namespace {

using Prompt = std::vector<std::uint64_t>;
using Depths = std::vector<std::uint32_t>;

Depths depths_of(const PrefixIndex& index, const Prompt& prompt) {
  Depths depths(index.backends(), 77);
  index.match(prompt, depths);
  return depths;
}

/// Blocks of one of `families` growing prompts that share their first block.
Prompt random_prompt(Rng& rng, std::uint32_t families, std::uint32_t max_length) {
  const std::uint64_t family = rng.below(families);
  Prompt prompt = {1};
  const std::uint32_t length = rng.below(max_length);
  for (std::uint64_t i = 0; i < length; ++i) prompt.push_back(mix(family * 1000 + i + 2));
  return prompt;
}

TEST(PrefixIndex, CountsTheLeadingBlocksOfEachBackend) {
  PrefixIndex index(3, 1 << 20);

  index.add(0, Prompt{1, 2, 3});
  index.add(1, Prompt{1, 2, 9});

  EXPECT_EQ(depths_of(index, {1, 2, 3, 4}), (Depths{3, 2, 0}));
  EXPECT_EQ(depths_of(index, {1, 2, 9}), (Depths{2, 3, 0}));
  EXPECT_EQ(depths_of(index, {2, 3}), (Depths{2, 1, 0}));
  EXPECT_EQ(depths_of(index, {7}), (Depths{0, 0, 0}));
  EXPECT_EQ(depths_of(index, {}), (Depths{0, 0, 0}));
}

TEST(PrefixIndex, AnswersForMoreBackendsThanAWordHasBits) {
  PrefixIndex index(200, 8 << 20);

  index.add(63, Prompt{1, 2});
  index.add(64, Prompt{1});
  index.add(199, Prompt{1, 2, 3});

  const Depths depths = depths_of(index, {1, 2, 3});
  EXPECT_EQ(depths[63], 2u);
  EXPECT_EQ(depths[64], 1u);
  EXPECT_EQ(depths[199], 3u);
  EXPECT_EQ(std::count(depths.begin(), depths.end(), 0u), 197);
}

TEST(PrefixIndex, EvictsTheEndOfTheOldestPromptFirst) {
  PrefixIndex index(2, 1 << 20);
  index.set_capacity(0, 5);
  index.add(0, Prompt{1, 2, 3});
  index.add(0, Prompt{1, 4, 5});

  index.add(0, Prompt{1, 6});

  EXPECT_EQ(index.size(0), 5u);
  EXPECT_EQ(depths_of(index, {1, 2, 3})[0], 2u);
  EXPECT_EQ(depths_of(index, {1, 4, 5})[0], 3u);
  EXPECT_EQ(depths_of(index, {1, 6})[0], 2u);
}

TEST(PrefixIndex, KeepsTheBeginningOfAPromptLargerThanTheCapacity) {
  PrefixIndex index(1, 1 << 20);
  index.set_capacity(0, 3);
  index.add(0, Prompt{1, 2, 3});

  index.add(0, Prompt{1, 2, 3, 4, 5});

  EXPECT_EQ(depths_of(index, {1, 2, 3, 4, 5})[0], 3u);
}

TEST(PrefixIndex, ClearsOneBackendOnly) {
  PrefixIndex index(2, 1 << 20);
  index.add(0, Prompt{1, 2});
  index.add(1, Prompt{1, 2});

  index.clear(0);

  EXPECT_EQ(depths_of(index, {1, 2}), (Depths{0, 2}));
  EXPECT_EQ(index.size(0), 0u);
}

TEST(PrefixIndex, ShrinksAtOnceWhenItsCapacityDoes) {
  PrefixIndex index(1, 1 << 20);
  index.add(0, Prompt{1, 2, 3, 4});

  index.set_capacity(0, 2);

  EXPECT_EQ(depths_of(index, {1, 2, 3, 4})[0], 2u);
}

TEST(PrefixIndex, IndexesTheBeginningOfAHugePrompt) {
  PrefixIndex index(1, 8 << 20);
  Prompt huge(5000);
  for (std::size_t i = 0; i < huge.size(); ++i) huge[i] = mix(i + 1);

  index.add(0, huge);

  EXPECT_EQ(depths_of(index, huge)[0], PrefixIndex::max_prompt_blocks);
}

/// The same by definition: a list of blocks for each backend.
class ListsOfBlocks {
 public:
  ListsOfBlocks(std::uint32_t backends, std::size_t capacity)
      : lists_(backends), capacity_(capacity) {}

  void add(std::uint32_t backend, const Prompt& prompt) {
    auto& list = lists_[backend];
    for (std::size_t i = prompt.size(); i-- > 0;) {
      list.remove(prompt[i]);
      list.push_front(prompt[i]);
    }
    while (list.size() > capacity_) list.pop_back();
  }
  void clear(std::uint32_t backend) { lists_[backend].clear(); }
  Depths match(const Prompt& prompt) const {
    Depths depths;
    for (const auto& list : lists_) {
      const auto missing = std::find_if(prompt.begin(), prompt.end(), [&list](std::uint64_t hash) {
        return std::find(list.begin(), list.end(), hash) == list.end();
      });
      depths.push_back(static_cast<std::uint32_t>(missing - prompt.begin()));
    }
    return depths;
  }

 private:
  std::vector<std::list<std::uint64_t>> lists_;
  std::size_t capacity_;
};

TEST(PrefixIndex, EqualsListsOfBlocksOverARandomRun) {
  constexpr std::uint32_t backends = 5;
  PrefixIndex index(backends, 1 << 20);
  ListsOfBlocks expected(backends, 40);
  for (std::uint32_t backend = 0; backend < backends; ++backend) index.set_capacity(backend, 40);
  Rng rng(7);

  for (int step = 0; step < 5000; ++step) {
    const std::uint32_t backend = rng.below(backends);
    const Prompt prompt = random_prompt(rng, 8, 30);
    if (rng.below(100) == 0) {
      index.clear(backend);
      expected.clear(backend);
    } else {
      index.add(backend, prompt);
      expected.add(backend, prompt);
    }
    const Prompt query = random_prompt(rng, 8, 30);
    ASSERT_EQ(depths_of(index, query), expected.match(query)) << "step " << step;
  }
}

TEST(PrefixIndex, HoldsItsByteCapOverALongRandomRun) {
  constexpr std::size_t cap = 2 << 20;
  PrefixIndex index(8, cap);
  const std::size_t before = index.bytes();
  Rng rng(11);

  for (int step = 0; step < 30'000; ++step) {
    index.add(rng.below(8), random_prompt(rng, 100'000, 60));
    if (step % 3'000 == 0) index.clear(rng.below(8));
  }

  EXPECT_EQ(index.bytes(), before);
  EXPECT_LE(before, cap);
  for (std::uint32_t backend = 0; backend < 8; ++backend) {
    EXPECT_LE(index.size(backend), index.max_capacity());
  }
  EXPECT_EQ(index.size(3), index.max_capacity());
}

/// All blocks of a backend, so many at a time.
Prompt copied(PrefixIndex& index, std::uint32_t backend, std::size_t at_a_time) {
  Prompt all;
  Prompt some(at_a_time);
  index.begin_copy(backend);
  for (std::size_t count = 0; (count = index.copy(some)) > 0;)
    all.insert(all.end(), some.begin(), some.begin() + static_cast<std::ptrdiff_t>(count));
  return all;
}

TEST(PrefixIndex, CopiesTheLastUsedBlocksFirst) {
  PrefixIndex index(2, 1 << 20);
  index.add(0, Prompt{1, 2, 3});
  index.add(1, Prompt{7});
  index.add(0, Prompt{1, 4});

  for (const std::size_t at_a_time : {1u, 2u, 100u})
    EXPECT_EQ(copied(index, 0, at_a_time), (Prompt{1, 4, 2, 3}));
  EXPECT_EQ(copied(index, 1, 3), (Prompt{7}));
  index.clear(1);
  EXPECT_EQ(copied(index, 1, 3), Prompt{});
}

TEST(PrefixIndex, IsTheSameWithTheBlocksOfAnother) {
  Rng rng(3);
  PrefixIndex index(2, 1 << 18);
  for (int i = 0; i < 500; ++i) index.add(0, random_prompt(rng, 40, 30));
  const Prompt blocks = copied(index, 0, 64);
  ASSERT_EQ(blocks.size(), index.size(0));

  PrefixIndex other(2, 1 << 18);
  for (std::size_t end = blocks.size(); end > 0; end -= std::min<std::size_t>(end, 100)) {
    const std::size_t count = std::min<std::size_t>(end, 100);
    other.add(0, std::span(blocks).subspan(end - count, count));
  }

  EXPECT_EQ(copied(other, 0, 64), blocks);
  for (int i = 0; i < 200; ++i) {
    const Prompt prompt = random_prompt(rng, 40, 30);
    EXPECT_EQ(depths_of(other, prompt), depths_of(index, prompt));
  }
}

TEST(PrefixIndex, ChangesWhileItIsCopied) {
  Rng rng(4);
  PrefixIndex index(3, 1 << 16);
  for (int round = 0; round < 300; ++round) {
    const std::uint32_t backend = rng.below(3);
    Prompt some(1 + rng.below(20));
    index.begin_copy(backend);
    std::size_t seen = 0;
    for (std::size_t count = 0; (count = index.copy(some)) > 0; seen += count) {
      ASSERT_LE(seen, 2 * index.max_capacity()) << "it ends";
      for (std::size_t i = 0; i < count; ++i) ASSERT_NE(some[i], 0u);
      index.add(rng.below(3), random_prompt(rng, 40, 30));
      if (rng.below(10) == 0) index.clear(rng.below(3));
      if (rng.below(10) == 0) index.set_capacity(rng.below(3), 1 + rng.below(300));
    }
  }
}

}  // namespace
}  // namespace evenkeel::testing
