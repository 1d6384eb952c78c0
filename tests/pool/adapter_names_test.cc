#include "pool/adapter_names.h"

#include <gtest/gtest.h>

namespace evenkeel::testing {
namespace {

TEST(AdapterNames, FindsTheAdapterOfEachName) {
  AdapterNames names;
  EXPECT_EQ(names.find(1), 0u);

  for (std::uint64_t name = 1; name <= 1000; ++name) names.add(name << 40, name + 7);

  for (std::uint64_t name = 1; name <= 1000; ++name) EXPECT_EQ(names.find(name << 40), name + 7);
  EXPECT_EQ(names.find(1), 0u);
  EXPECT_EQ(names.find(0), 0u);
  EXPECT_EQ(names.size(), 1000u);
}

TEST(AdapterNames, KeepsTheFirstAdapterOfAName) {
  AdapterNames names;
  names.add(1, 10);
  names.add(1, 20);

  EXPECT_EQ(names.find(1), 10u);
  EXPECT_EQ(names.size(), 1u);
}

TEST(AdapterNames, HasABound) {
  AdapterNames names;
  for (std::uint64_t name = 1; name <= AdapterNames::capacity + 10; ++name) names.add(name, name);

  EXPECT_EQ(names.size(), AdapterNames::capacity);
  EXPECT_EQ(names.find(AdapterNames::capacity + 10), 0u);
}

}  // namespace
}  // namespace evenkeel::testing
