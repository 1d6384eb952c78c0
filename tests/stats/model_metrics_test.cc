#include "evenkeel/stats/model_metrics.h"

#include <gtest/gtest.h>

#include <string>

namespace evenkeel {
namespace {

TEST(ModelNames, GiveTheSameNameTheSameIndexOnAllWorkers) {
  LabelIndex index;
  ModelNames one(index);
  ModelNames other(index);

  const std::uint32_t llama = one.index_of("llama");

  EXPECT_EQ(other.index_of("llama"), llama);
  EXPECT_NE(other.index_of("qwen"), llama);
  EXPECT_EQ(one.index_of("qwen"), other.index_of("qwen"));
  EXPECT_EQ(one.index_of(""), 0u);
}

TEST(ModelNames, CountWhatIsBeyondTheCapTogether) {
  LabelIndex index;
  ModelNames one(index);
  ModelNames other(index);
  for (std::uint32_t i = 0; i < LabelIndex::max_models; ++i) {
    EXPECT_NE(one.index_of("m" + std::to_string(i)), LabelIndex::other_model);
  }

  EXPECT_EQ(one.index_of("one too many"), LabelIndex::other_model);
  EXPECT_EQ(one.index_of("another"), LabelIndex::other_model);
  EXPECT_EQ(other.index_of("another"), LabelIndex::other_model);
  EXPECT_EQ(other.index_of("m7"), one.index_of("m7"));
  EXPECT_EQ(index.view().models.size(), 2 + LabelIndex::max_models);
}

TEST(ModelNames, KeepAPlaceForNamesOfTheFile) {
  LabelIndex index;
  ModelNames names(index);
  for (std::uint32_t i = 0; i < 2 * LabelIndex::max_models; ++i) {
    names.index_of("m" + std::to_string(i));
  }

  index.pin_model("pinned by a reload");

  EXPECT_NE(names.index_of("pinned by a reload"), LabelIndex::other_model);
  EXPECT_EQ(index.view().models[names.index_of("pinned by a reload")], "pinned by a reload");
  EXPECT_EQ(names.index_of("still too many"), LabelIndex::other_model);
}

TEST(ModelNames, ShowNoBytesThatALabelCannotHold) {
  LabelIndex index;
  ModelNames names(index);

  for (const std::string name : {"a\xff", "a\nb", "a b", "\x7f"}) {
    EXPECT_EQ(names.index_of(name), LabelIndex::other_model);
  }

  EXPECT_EQ(index.view().models.size(), 2u);
}

}  // namespace
}  // namespace evenkeel
