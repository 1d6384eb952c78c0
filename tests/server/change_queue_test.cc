#include "server/change_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

namespace evenkeel {
namespace {

using testing::ElementsAre;
using namespace std::chrono_literals;

class QueueOfChanges : public testing::Test {
 protected:
  /// Returns how many were done before.
  Task<std::size_t> note(std::string name) {
    begun_.push_back(name);
    co_await loop_.yield();
    co_await loop_.yield();
    done_.push_back(name);
    co_return done_.size() - 1;
  }
  std::function<Task<std::size_t>()> noting(std::string name) {
    return [this, name] { return note(name); };
  }
  void run_until_done(std::size_t count) {
    ASSERT_TRUE(loop_.run_until([&] { return done_.size() >= count; }, Clock::now() + 20s));
  }

  Loop loop_;
  ChangeQueue queue_{loop_};
  std::vector<std::string> begun_;
  std::vector<std::string> done_;
};

TEST_F(QueueOfChanges, RunsThemOneAfterTheOther) {
  queue_.post("a", noting("a"));
  queue_.post("b", noting("b"));
  loop_.spawn(queue_.serve());

  ASSERT_TRUE(loop_.run_until([&] { return begun_.size() == 2; }, Clock::now() + 20s));

  EXPECT_THAT(done_, ElementsAre("a")) << "b begins when a is done";
  run_until_done(2);
}

TEST_F(QueueOfChanges, ReturnsTheResultWhenTheChangeIsDone) {
  loop_.spawn(queue_.serve());
  auto first = queue_.run(noting("a"));
  auto second = queue_.run(noting("b"));

  ASSERT_TRUE(loop_.run_until([&] { return first.ready(); }, Clock::now() + 20s));

  EXPECT_FALSE(second.ready());
  ASSERT_TRUE(loop_.run_until([&] { return second.ready(); }, Clock::now() + 20s));
  EXPECT_THAT(done_, ElementsAre("a", "b"));
  EXPECT_EQ(first.take(), 0u);
  EXPECT_EQ(second.take(), 1u);
}

TEST_F(QueueOfChanges, CoalescesPostedChangesOfOneName) {
  queue_.post("reload", noting("reload"));
  queue_.post("dns", noting("dns"));
  queue_.post("reload", noting("reload again"));
  loop_.spawn(queue_.serve());

  run_until_done(2);

  EXPECT_THAT(begun_, ElementsAre("reload", "dns"));
}

TEST_F(QueueOfChanges, DoesNotCoalesceWithAChangeThatHasBegun) {
  queue_.post("reload", noting("first"));
  loop_.spawn(queue_.serve());
  ASSERT_THAT(begun_, ElementsAre("first"));

  queue_.post("reload", noting("second"));

  run_until_done(2);
  EXPECT_THAT(done_, ElementsAre("first", "second"));
}

TEST_F(QueueOfChanges, RunsAChangeWhoseWaiterHasLeft) {
  {
    auto left = queue_.run(noting("a"));
    EXPECT_FALSE(left.ready());
  }
  loop_.spawn(queue_.serve());

  run_until_done(1);

  EXPECT_THAT(done_, ElementsAre("a"));
}

}  // namespace
}  // namespace evenkeel
