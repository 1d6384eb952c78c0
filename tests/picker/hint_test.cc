#include "evenkeel/picker/hint.h"

#include <gtest/gtest.h>

#include <vector>

#include "evenkeel/backend/backend.h"

namespace evenkeel {
namespace {

TEST(ExcludedBackends, AreThoseThatWereTried) {
  const Backend tried({.id = "tried", .address = "tried"});
  const Backend other({.id = "other", .address = "other"});
  ExcludedBackends excluded;
  EXPECT_TRUE(excluded.empty());

  excluded.add(&tried);

  EXPECT_FALSE(excluded.empty());
  EXPECT_TRUE(excluded.contains(&tried));
  EXPECT_FALSE(excluded.contains(&other));
}

TEST(ExcludedBackends, AreAllButThoseThatAreKeptTo) {
  const Backend kept({.id = "kept", .address = "kept"});
  const Backend other({.id = "other", .address = "other"});
  const std::vector<const Backend*> only = {&kept};
  ExcludedBackends excluded;

  excluded.keep_to(only);

  EXPECT_FALSE(excluded.empty());
  EXPECT_FALSE(excluded.full());
  EXPECT_FALSE(excluded.contains(&kept));
  EXPECT_TRUE(excluded.contains(&other));
  excluded.add(&kept);
  EXPECT_TRUE(excluded.contains(&kept));
}

}  // namespace
}  // namespace evenkeel
