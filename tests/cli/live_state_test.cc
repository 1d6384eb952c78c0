#include "cli/live_state.h"

#include <gtest/gtest.h>

#include "cli/admin_text.h"

namespace evenkeel {
namespace {

JsonValue json(std::string_view text) {
  auto document = parse_json(text);
  EXPECT_TRUE(document.ok()) << text;
  return std::move(*document);
}

LiveState snapshot() {
  return after_event({}, "snapshot", json(R"({
      "status": {"version": "1", "connections": 1},
      "pools": [{"name": "chat", "waiting": 0}],
      "backends": [{"id": "a:1", "pool": "chat", "state": "up", "in_flight": 1},
                   {"id": "b:1", "pool": "chat", "state": "up", "in_flight": 2}]})"));
}

TEST(LiveState, StartsWithASnapshot) {
  const LiveState state = snapshot();

  EXPECT_EQ(json_text(state.status), R"({"version":"1","connections":1})");
  EXPECT_EQ(json_text(state.pools), R"([{"name":"chat","waiting":0}])");
  EXPECT_EQ(state.backends.items().size(), 2u);
}

TEST(LiveState, ADiffReplacesTheFieldsThatItNames) {
  const LiveState state = after_event(snapshot(), "diff", json(R"({
      "status": {"connections": 5},
      "backends": [{"pool": "chat", "id": "b:1", "state": "down", "reason": "timeout"}]})"));

  EXPECT_EQ(json_text(state.status), R"({"version":"1","connections":5})");
  EXPECT_EQ(json_text(state.pools), R"([{"name":"chat","waiting":0}])");
  EXPECT_EQ(json_text(state.backends.items()[0]),
            R"({"id":"a:1","pool":"chat","state":"up","in_flight":1})");
  EXPECT_EQ(json_text(state.backends.items()[1]),
            R"({"id":"b:1","pool":"chat","state":"down","in_flight":2,"reason":"timeout"})");
}

TEST(LiveState, ADiffAddsAndRemovesItems) {
  const LiveState state = after_event(snapshot(), "diff", json(R"({
      "pools": [{"name": "embed", "waiting": 3}],
      "backends": [{"pool": "embed", "id": "a:1", "state": "starting"}],
      "removed": {"backends": [{"pool": "chat", "id": "a:1"}]}})"));

  EXPECT_EQ(json_text(state.pools),
            R"([{"name":"chat","waiting":0},{"name":"embed","waiting":3}])");
  ASSERT_EQ(state.backends.items().size(), 2u);
  EXPECT_EQ(state.backends.items()[0]["id"].text(), "b:1");
  EXPECT_EQ(state.backends.items()[1]["pool"].text(), "embed");
}

TEST(LiveState, ASnapshotReplacesEverything) {
  const LiveState state =
      after_event(snapshot(), "snapshot", json(R"({"status": {}, "pools": [], "backends": []})"));

  EXPECT_EQ(json_text(state.status), "{}");
  EXPECT_EQ(json_text(state.backends), "[]");
}

TEST(LiveState, IgnoresEventsOfAnotherVersion) {
  EXPECT_EQ(json_text(after_event(snapshot(), "news", json("{}")).backends),
            json_text(snapshot().backends));
  EXPECT_EQ(after_event(snapshot(), "diff", json("[7]")).backends.items().size(), 2u);
  EXPECT_EQ(after_event({}, "diff", json(R"({"backends": [7]})")).backends.items().size(), 1u);
}

}  // namespace
}  // namespace evenkeel
