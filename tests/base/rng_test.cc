#include "evenkeel/base/rng.h"

#include <gtest/gtest.h>

#include <vector>

#include "evenkeel/base/hash.h"

namespace evenkeel {
namespace {

TEST(Rng, GivesTheSameNumbersForTheSameSeed) {
  Rng one(42);
  Rng same(42);
  Rng other(43);

  int equal = 0;
  for (int i = 0; i < 100; ++i) {
    const auto number = one();
    EXPECT_EQ(number, same());
    if (number == other()) ++equal;
  }

  EXPECT_EQ(equal, 0);
}

TEST(Rng, BelowIsEvenAndStaysBelow) {
  Rng rng(1);
  std::vector<int> counts(10);

  for (int i = 0; i < 100'000; ++i) ++counts.at(rng.below(10));

  for (int count : counts) EXPECT_NEAR(count, 10'000, 400);
}

TEST(Rng, UnitIsAtLeastZeroAndLessThanOne) {
  Rng rng(1);
  double sum = 0;

  for (int i = 0; i < 100'000; ++i) {
    const double unit = rng.unit();
    ASSERT_GE(unit, 0);
    ASSERT_LT(unit, 1);
    sum += unit;
  }

  EXPECT_NEAR(sum, 50'000, 400);
}

TEST(Hash, IsXxh3) {
  EXPECT_EQ(hash_of(""), 0x2d06800538d394c2u);  // the published value for empty input and seed 0
  EXPECT_NE(hash_of("a"), hash_of("b"));
}

}  // namespace
}  // namespace evenkeel
