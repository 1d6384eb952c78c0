#include "evenkeel/wire/idle_list.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>

namespace evenkeel {
namespace {

using namespace std::chrono_literals;

/// A connection that notes when it is woken.
struct Connection {
  explicit Connection(std::string& shared, char own_name) : notes(shared), name(own_name) {}
  void close() { notes += name; }
  std::string& notes;
  char name;
  MethodEvent<IdleWaiter, &Connection::close> waiter{*this};
};

class IdleListTest : public testing::Test {
 protected:
  std::uint32_t count() const { return summary.count.load(); }
  Instant oldest() const { return summary.oldest_since.load(); }

  const Instant start = Clock::now();
  std::string woken;
  IdleSummary summary;
  IdleList list{&summary};
  Connection a{woken, 'a'};
  Connection b{woken, 'b'};
  Connection c{woken, 'c'};
};

TEST_F(IdleListTest, WakesTheOneThatIsIdleLongest) {
  list.add(a.waiter, start);
  list.add(b.waiter, start + 1s);
  a.waiter.leave();
  list.add(a.waiter, start + 2s);

  list.wake_first();
  EXPECT_EQ(woken, "b");
  list.wake_all();
  EXPECT_EQ(woken, "ba");
  EXPECT_TRUE(list.empty());
}

TEST_F(IdleListTest, TellsOthersHowManyAreIdleAndSinceWhen) {
  EXPECT_EQ(count(), 0u);
  EXPECT_EQ(oldest(), never);

  list.add(a.waiter, start);
  list.add(b.waiter, start + 1s);
  list.add(c.waiter, start + 2s);
  EXPECT_EQ(count(), 3u);
  EXPECT_EQ(oldest(), start);

  b.waiter.leave();
  EXPECT_EQ(oldest(), start);
  a.waiter.leave();
  EXPECT_EQ(count(), 1u);
  EXPECT_EQ(oldest(), start + 2s);

  list.wake_first();
  EXPECT_EQ(count(), 0u);
  EXPECT_EQ(oldest(), never);
}

TEST_F(IdleListTest, ForgetsAConnectionThatIsDestroyed) {
  std::optional<Connection> brief(std::in_place, woken, 'd');
  list.add(brief->waiter, start);
  brief.reset();
  EXPECT_EQ(count(), 0u);
  EXPECT_EQ(oldest(), never);
}

TEST_F(IdleListTest, LeavesItsConnectionsUsableWhenItIsDestroyedFirst) {
  {
    IdleList brief;
    brief.add(a.waiter, start);
  }
  list.add(a.waiter, start);
  list.wake_first();
  EXPECT_EQ(woken, "a");
}

}  // namespace
}  // namespace evenkeel
