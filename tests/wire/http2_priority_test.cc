#include "wire/http2_priority.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace evenkeel {
namespace {

/// As `u=3, i=0`; "": there is none.
std::string priority_of(const std::vector<std::string_view>& fields) {
  Http2PriorityField field;
  for (const auto value : fields) field.add(value);
  const auto found = field.value();
  if (!found) return "";
  return "u=" + std::to_string(found->urgency) + ", i=" + std::to_string(found->incremental);
}

TEST(Http2PriorityField, ReadsUrgencyAndIncremental) {
  EXPECT_EQ(priority_of({}), "");
  EXPECT_EQ(priority_of({""}), "u=3, i=0");
  EXPECT_EQ(priority_of({"u=0"}), "u=0, i=0");
  EXPECT_EQ(priority_of({"i"}), "u=3, i=1");
  EXPECT_EQ(priority_of({"u=7, i"}), "u=7, i=1");
  EXPECT_EQ(priority_of({"i=?1 ,\tu=5"}), "u=5, i=1");
  EXPECT_EQ(priority_of({"u=1, u=2"}), "u=2, i=0");
}

TEST(Http2PriorityField, ReadsSeveralFieldsAsOne) {
  EXPECT_EQ(priority_of({"u=1", "i"}), "u=1, i=1");
  EXPECT_EQ(priority_of({"u=1, i", "i=?0"}), "u=1, i=0");
}

TEST(Http2PriorityField, SkipsWhatItDoesNotKnow) {
  EXPECT_EQ(priority_of({"u=1;a=b, x=y, other"}), "u=1, i=0");
}

TEST(Http2PriorityField, IsVoidWhenItCannotBeRead) {
  for (const char* wrong : {"u=8", "u=", "u=-1", "u=1.0", "i=1", "i=?2"}) {
    EXPECT_EQ(priority_of({wrong}), "") << wrong;
    EXPECT_EQ(priority_of({"u=1", wrong}), "") << wrong;
  }
}

}  // namespace
}  // namespace evenkeel
