#include "evenkeel/base/task.h"

#include <gtest/gtest.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace evenkeel {
namespace {

/// An awaitable that the test resumes.
class Gate {
 public:
  bool await_ready() const { return open_; }
  void await_suspend(std::coroutine_handle<> waiter) { waiter_ = waiter; }
  void await_resume() {}
  void open() {
    open_ = true;
    if (waiter_) std::exchange(waiter_, {}).resume();
  }

 private:
  bool open_ = false;
  std::coroutine_handle<> waiter_;
};

/// Notes its destruction.
struct Witness {
  Witness(std::string& shared, char own_name) : notes(shared), name(own_name) {}
  Witness(const Witness&) = delete;
  ~Witness() { notes += name; }
  std::string& notes;
  char name;
};

Task<int> add(Gate& gate, int value, std::string& notes) {
  const Witness witness(notes, 'i');
  co_await gate;
  co_return value + 1;
}

Task<int> outer(Gate& gate, std::string& notes) {
  const Witness witness(notes, 'o');
  auto value = co_await add(gate, 1, notes);
  co_return value * 10;
}

Task<void> await_and_note(Task<int> task, std::vector<int>& results) {
  auto value = co_await task;
  results.push_back(value);
}

TEST(Task, ThatHasItsValueIsReadyAndHasNoFrame) {
  Task<int> task = 5;
  EXPECT_TRUE(task.valid());
  EXPECT_TRUE(task.ready());
  EXPECT_EQ(task.take(), 5);
  EXPECT_FALSE(task.valid());
}

TEST(Task, StartsAtOnceAndIsReadyWhenItNeverWaits) {
  Gate gate;
  std::string notes;
  gate.open();

  auto task = outer(gate, notes);

  EXPECT_TRUE(task.ready());
  EXPECT_EQ(notes, "io");
  EXPECT_EQ(task.take(), 20);
}

TEST(Task, ContinuesItsAwaiterWhenItIsDone) {
  Gate gate;
  std::string notes;
  std::vector<int> results;
  auto task = await_and_note(outer(gate, notes), results);
  EXPECT_FALSE(task.ready());
  EXPECT_TRUE(results.empty());

  gate.open();

  EXPECT_TRUE(task.ready());
  EXPECT_EQ(results, std::vector<int>{20});
}

TEST(Task, ThatIsDroppedEndsWithAllThatItWaitsFor) {
  Gate gate;
  std::string notes;
  auto task = outer(gate, notes);
  EXPECT_EQ(notes, "");

  task.drop();

  EXPECT_EQ(notes, "io");
  EXPECT_FALSE(task.valid());
}

TEST(Task, ThatGoesOutOfScopeOrIsReplacedIsDropped) {
  Gate one;
  Gate two;
  std::string notes;
  {
    auto task = outer(one, notes);
    task = outer(two, notes);
    EXPECT_EQ(notes, "io");
  }
  EXPECT_EQ(notes, "ioio");
}

TEST(Task, MovesWithoutLosingItsPlace) {
  Gate gate;
  std::string notes;
  auto first = outer(gate, notes);
  auto second = std::move(first);
  EXPECT_FALSE(first.valid());  // NOLINT(bugprone-use-after-move): under test

  gate.open();

  ASSERT_TRUE(second.ready());
  EXPECT_EQ(second.take(), 20);
}

TEST(Task, DestroysAnUntakenValue) {
  auto value = std::make_shared<int>(7);
  const std::weak_ptr<int> watched = value;
  {
    Task<std::shared_ptr<int>> task = std::move(value);
    EXPECT_FALSE(watched.expired());
  }
  EXPECT_TRUE(watched.expired());
}

Task<std::unique_ptr<int>> make(int value) { co_return std::make_unique<int>(value); }

TEST(Task, HandsOverWhatCannotBeCopied) {
  auto task = make(3);
  auto value = task.take();
  EXPECT_EQ(*value, 3);
}

TEST(Task, ResumesNothingAfterAnEmptyHandle) {
  Gate gate;
  std::string notes;
  std::vector<int> results;
  auto inner = outer(gate, notes);
  {
    auto waiting = await_and_note(std::move(inner), results);
    EXPECT_FALSE(waiting.ready());
  }
  EXPECT_EQ(notes, "io");
  EXPECT_TRUE(results.empty());
}

Task<int> deep(Gate& gate, int depth) {
  if (depth == 0) {
    co_await gate;
    co_return 0;
  }
  auto below = co_await deep(gate, depth - 1);
  co_return below + 1;
}

TEST(Task, CarriesAValueThroughManyFrames) {
  Gate gate;
  auto task = deep(gate, 500);
  EXPECT_FALSE(task.ready());
  gate.open();
  EXPECT_EQ(task.take(), 500);
}

TEST(Task, OfNothingIsReadyWhenEmpty) {
  Task<void> empty;
  EXPECT_TRUE(empty.ready());
  EXPECT_FALSE(empty.valid());
}

Task<int> throw_after(Gate& gate) {
  co_await gate;
  throw std::runtime_error("a bug");
  co_return 1;
}

TEST(TaskDeathTest, EndsTheProcessWhenItsCoroutineThrows) {
  EXPECT_DEATH(
      {
        Gate gate;
        auto task = throw_after(gate);
        gate.open();
      },
      "a bug");
}

}  // namespace
}  // namespace evenkeel
