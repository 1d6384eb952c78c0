// When a loop looks for events without waiting for them.
#include <gtest/gtest.h>

#include <thread>

#include "base/busy_loops.h"

namespace evenkeel {
namespace {

TEST(LoopPolling, HappensWhileEventsComeSoonUnlessItIsNotAllowed) {
  Loop one;
  Loop other;
  std::thread first([&] { one.run(); });
  std::thread second([&] { other.run(); });
  BusyLoops loops(one, other);
  const auto allow = [&](bool allowed) {
    for (Loop* loop : {&one, &other}) loop->post([=] { loop->set_busy_polling(allowed); });
    loops.take_turns(1);
  };

  EXPECT_TRUE(loops.look());
  allow(false);
  EXPECT_EQ(loops.looks_in(4'000), 0u);
  allow(true);
  EXPECT_TRUE(loops.look());

  one.stop();
  other.stop();
  first.join();
  second.join();
}

}  // namespace
}  // namespace evenkeel
