#include "evenkeel/config/selector.h"

#include <gtest/gtest.h>

namespace evenkeel {
namespace {

TEST(Selector, NamesLabelsAsItReadsThem) {
  const BackendLabels labels{{"gpu", "h100"}, {"version", "v7"}};

  EXPECT_EQ(selector_of(labels), "gpu=h100,version=v7");
  EXPECT_EQ(labels_of("gpu=h100,version=v7"), labels);
  EXPECT_EQ(labels_of(" version = v7 , gpu = h100 "), labels);
  EXPECT_EQ(labels_of("a=b=c"), (BackendLabels{{"a", "b=c"}}));
}

TEST(Selector, RefusesWhatIsNone) {
  for (const char* text : {"", "v7", "=v7", "version=", "a=1,", ",a=1", "a=1,b", "a=1,a=2"}) {
    EXPECT_EQ(labels_of(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace evenkeel
