#include "admin/live_feed.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <chrono>
#include <memory>
#include <new>
#include <string>
#include <vector>

namespace evenkeel {
namespace {

boost::json::object object(const char* text) { return boost::json::parse(text).as_object(); }

std::string diff(const char* before, const char* after) {
  return boost::json::serialize(live_diff(object(before), object(after)));
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

Awaitable<void> collect(LiveFeed& feed, std::size_t count, std::vector<std::string>& events) {
  {
    LiveFeed::Subscription subscription(feed, "");
    while (events.size() < count) {
      const SharedText event = co_await subscription.next();
      if (event == nullptr) co_return;
      events.push_back(*event);
    }
  }
  feed.stop();
}

TEST(LiveFeed, GoesOnAfterAStateThatCannotBeRead) {
  const auto io = std::make_shared<asio::io_context>(1);
  int reads = 0;
  LiveFeed feed(io, [&reads] {
    if (++reads == 2) throw std::bad_alloc();
    auto state = object(R"({"status": {}, "pools": [], "backends": []})");
    state["status"].as_object()["reads"] = reads;
    return state;
  });
  std::vector<std::string> events;
  asio::co_spawn(*io, collect(feed, 2, events), asio::detached);

  io->run_for(std::chrono::seconds(20));

  ASSERT_EQ(events.size(), 2u);
  EXPECT_THAT(events[0], testing::HasSubstr("event: snapshot"));
  EXPECT_THAT(events[1], testing::AllOf(testing::HasSubstr("event: diff"),
                                        testing::HasSubstr(R"("reads":3)")));
}

}  // namespace
}  // namespace evenkeel
