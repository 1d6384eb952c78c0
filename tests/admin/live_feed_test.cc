#include "admin/live_feed.h"

#include <gtest/gtest.h>

#include <string>

namespace evenkeel {
namespace {

JsonValue object(const char* text) { return *parse_json(text); }

std::string diff(const char* before, const char* after) {
  return json_text(live_diff(object(before), object(after)));
}

TEST(LiveDiff, HoldsOnlyTheFieldsThatChanged) {
  EXPECT_EQ(diff(R"({"status": {"a": 1, "b": 2}, "pools": [{"name": "x", "waiting": 0}],
                     "backends": [{"pool": "x", "id": "1", "state": "up", "weight": 1},
                                  {"pool": "x", "id": "2", "state": "up", "weight": 1}]})",
                 R"({"status": {"a": 1, "b": 3}, "pools": [{"name": "x", "waiting": 0}],
                     "backends": [{"pool": "x", "id": "1", "state": "up", "weight": 1},
                                  {"pool": "x", "id": "2", "state": null, "weight": 1}]})"),
            R"({"status":{"b":3},"backends":[{"pool":"x","id":"2","state":null}]})");
}

TEST(LiveDiff, NamesWhatIsNewAndWhatIsGone) {
  EXPECT_EQ(diff(R"({"status": {}, "pools": [{"name": "x"}],
                     "backends": [{"pool": "x", "id": "1", "weight": 1}]})",
                 R"({"status": {}, "pools": [{"name": "y"}],
                     "backends": [{"pool": "y", "id": "1", "weight": 1}]})"),
            R"({"pools":[{"name":"y"}],"backends":[{"pool":"y","id":"1","weight":1}],)"
            R"("removed":{"pools":[{"name":"x"}],"backends":[{"pool":"x","id":"1"}]}})");
}

TEST(LiveDiff, IsEmptyWhereNothingChanged) {
  const char* state = R"({"status": {"a": [1, 2]}, "pools": [], "backends": []})";
  EXPECT_EQ(diff(state, state), "{}");
}

}  // namespace
}  // namespace evenkeel
