#include "discovery/found_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace evenkeel {
namespace {

using testing::HasSubstr;

class FoundLists : public testing::Test {
 protected:
  static FoundList::Backends backends(std::size_t count) {
    FoundList::Backends list;
    for (std::size_t i = 0; i < count; ++i)
      list.push_back({.address = {.host = "10.0.0." + std::to_string(i + 1), .port = 8000}});
    return list;
  }
  std::size_t size() const { return list.backends() ? list.backends()->size() : 0; }

  Loop loop;
  int changes = 0;
  FoundList list{loop, "llama", [this] { ++changes; }};
};

TEST_F(FoundLists, TellOnlyOfChanges) {
  list.take(backends(2));
  list.take(backends(2));
  EXPECT_EQ(changes, 1);

  list.take(backends(3));
  EXPECT_EQ(changes, 2);
}

TEST_F(FoundLists, AFirstListWithoutBackendsIsOneToo) {
  EXPECT_TRUE(list.offer({}));

  EXPECT_TRUE(list.backends());
  EXPECT_EQ(changes, 1);
}

TEST_F(FoundLists, AreSortedAndHaveEachAddressOnce) {
  FoundList::Backends twice = backends(3);
  twice.push_back(twice.front());
  std::swap(twice[0], twice[2]);

  list.take(twice);

  EXPECT_EQ(*list.backends(), backends(3));
}

TEST_F(FoundLists, AListThatLosesHalfCountsAtOnce) {
  list.take(backends(4));

  EXPECT_TRUE(list.offer(backends(2)));
  EXPECT_EQ(size(), 2u);
  EXPECT_EQ(list.status().held, 0u);
}

TEST_F(FoundLists, AListThatLosesMoreThanHalfCountsWhenASecondOneConfirmsIt) {
  list.take(backends(4));

  EXPECT_FALSE(list.offer(backends(1)));
  EXPECT_EQ(size(), 4u);
  EXPECT_EQ(list.status().held, 1u);

  EXPECT_TRUE(list.offer(backends(1)));
  EXPECT_EQ(size(), 1u);
  EXPECT_EQ(list.status().held, 1u);
}

TEST_F(FoundLists, AListThatIsWholeAgainEndsTheDoubt) {
  list.take(backends(4));
  EXPECT_FALSE(list.offer({}));

  EXPECT_TRUE(list.offer(backends(4)));
  EXPECT_FALSE(list.offer({})) << "the doubt begins anew";
  EXPECT_EQ(size(), 4u);
  EXPECT_EQ(list.status().held, 2u);
}

TEST_F(FoundLists, WhatSingleBackendsDoCountsAtOnce) {
  list.take(backends(4));

  list.take(backends(1));

  EXPECT_EQ(size(), 1u);
}

TEST_F(FoundLists, AFailureLeavesWhatWasFound) {
  list.take(backends(2));

  list.note_failure("the API server is away");

  EXPECT_EQ(size(), 2u);
  EXPECT_EQ(list.status().failures, 1u);
  EXPECT_THAT(list.status().problem, HasSubstr("away"));
  list.note_good();
  EXPECT_EQ(list.status().problem, "");
}

TEST_F(FoundLists, AComplaintLastsUntilItIsTakenBack) {
  list.complain("there is no such port");
  list.take(backends(2));
  EXPECT_EQ(list.status().problem, "there is no such port");

  list.complain({});
  EXPECT_EQ(list.status().problem, "");
}

}  // namespace
}  // namespace evenkeel
