#include "scheduler/associative_table.h"

#include <gtest/gtest.h>

namespace evenkeel::testing {
namespace {

double worth(const double& value) { return value; }

TEST(AssociativeTable, FindsWhatWasAdded) {
  AssociativeTable<double> table(64);

  table.find_or_add(5, worth) = 0.5;
  table.find_or_add(6, worth) = 0.6;

  ASSERT_NE(table.find(5), nullptr);
  EXPECT_EQ(*table.find(5), 0.5);
  EXPECT_EQ(table.find_or_add(6, worth), 0.6);
  EXPECT_EQ(table.find(7), nullptr);
}

TEST(AssociativeTable, ReplacesTheValueThatIsWorthLeast) {
  AssociativeTable<double> table(8);  // one set
  for (std::uint64_t key = 1; key <= 8; ++key) {
    table.find_or_add(key, worth) = key == 3 ? 1 : 10;
  }

  table.find_or_add(9, worth) = 5;

  EXPECT_EQ(table.find(3), nullptr);
  EXPECT_NE(table.find(9), nullptr);
  for (const std::uint64_t key : {1u, 2u, 4u, 8u}) EXPECT_NE(table.find(key), nullptr);
}

}  // namespace
}  // namespace evenkeel::testing
