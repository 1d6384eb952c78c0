#include "wire/response_buffer.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace evenkeel {
namespace {

TEST(ResponseCharge, TakesFromBothBudgetsAndGivesBackToBoth) {
  const std::int64_t before = ResponseBudget::taken();
  ConnectionBudget connection(100);
  {
    ResponseCharge charge(&connection);
    EXPECT_TRUE(charge.take(60));
    EXPECT_EQ(connection.left(), 40u);
    EXPECT_EQ(ResponseBudget::taken(), before + 60);

    EXPECT_FALSE(charge.take(41));
    EXPECT_TRUE(charge.take(40));
    EXPECT_EQ(charge.bytes(), 100u);
  }
  EXPECT_EQ(connection.left(), 100u);
  EXPECT_EQ(ResponseBudget::taken(), before);
}

TEST(ResponseCharge, TakesNothingFromItsConnectionWhenTheThreadsBudgetIsSpent) {
  std::uint32_t spent = 0;
  while (ResponseBudget::take(Block::large)) spent += Block::large;
  ConnectionBudget connection(2 * Block::large);

  ResponseCharge charge(&connection);
  EXPECT_FALSE(charge.take(Block::large));
  EXPECT_EQ(connection.left(), 2 * Block::large);

  ResponseBudget::give_back(spent);
  EXPECT_TRUE(charge.take(Block::large));
}

TEST(ResponseCharge, NeedsNoConnection) {
  ResponseCharge charge(nullptr);
  EXPECT_TRUE(charge.take(Block::large));
}

TEST(ResponseBuffer, IsSmallOrAbsentWhenItsConnectionHasSpentItsBudget) {
  ConnectionBudget connection(2 * Block::large);
  ResponseBuffer first(&connection);
  ResponseBuffer second(&connection);
  ResponseBuffer third(&connection);
  first.take(0, true);
  second.take(0, false);
  EXPECT_EQ(first.block.size(), Block::large);
  EXPECT_EQ(second.block.size(), Block::large);

  third.take(0, true);
  EXPECT_FALSE(third.block);
  third.take(0, false);
  EXPECT_EQ(third.block.size(), Block::small);
  EXPECT_EQ(connection.left(), 0u);

  ResponseBuffer of_another_client(nullptr);
  of_another_client.take(0, true);
  EXPECT_EQ(of_another_client.block.size(), Block::large);
}

TEST(ResponseBuffer, IsHugeForALongBodyWhileTheBudgetLasts) {
  ConnectionBudget connection(2 * Block::huge);
  ResponseBuffer first(&connection);
  ResponseBuffer second(&connection);
  ResponseBuffer third(&connection);
  first.take(Block::large + 1, true);
  second.take(Block::large + 1, true);
  third.take(Block::large + 1, true);
  EXPECT_EQ(first.block.size(), Block::huge);
  EXPECT_EQ(second.block.size(), Block::large);
  EXPECT_EQ(third.block.size(), Block::large) << "half is for those that need less";

  first.release();
  EXPECT_EQ(connection.left(), 2 * Block::huge - 2 * Block::large);
  first.take(Block::large, true);
  EXPECT_EQ(first.block.size(), Block::large) << "the rest fits a large one";
}

TEST(ResponseBuffer, IsLargeAgainOnceItsConnectionReads) {
  ConnectionBudget connection(Block::large);
  ResponseBuffer unread(&connection);
  ResponseBuffer other(&connection);
  unread.take(0, false);
  other.take(0, false);
  EXPECT_EQ(other.block.size(), Block::small);

  unread.release();
  other.take(0, false);
  EXPECT_EQ(other.block.size(), Block::large);
}

}  // namespace
}  // namespace evenkeel
