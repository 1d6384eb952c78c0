#include "server/preparation_thread.h"

#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <optional>

namespace evenkeel {
namespace {

using namespace std::chrono_literals;

TEST(PreparationThread, RunsWorkOnAnotherThread) {
  Loop loop;
  PreparationThread thread(loop, "preparation");
  auto id = thread.run([] { return std::this_thread::get_id(); });

  ASSERT_TRUE(loop.run_until([&] { return id.ready(); }, Clock::now() + 20s));
  EXPECT_NE(id.take(), std::this_thread::get_id());
}

TEST(PreparationThread, ItsEndWaitsForWorkThatHasBegun) {
  Loop loop;
  std::optional<PreparationThread> thread(std::in_place, loop, "preparation");
  const auto begun = std::make_shared<std::promise<void>>();
  const auto ended = std::make_shared<std::atomic<bool>>(false);
  auto done = thread->run([begun, ended] {
    begun->set_value();
    std::this_thread::sleep_for(50ms);
    *ended = true;
  });
  begun->get_future().wait();

  thread.reset();

  EXPECT_TRUE(*ended);
}

TEST(PreparationThread, ItsEndDoesNotWaitForWorkThatHangs) {
  const auto begun = std::make_shared<std::promise<void>>();
  const auto release = std::make_shared<std::promise<void>>();
  const auto returned = std::make_shared<std::promise<void>>();
  const Instant start = Clock::now();
  {
    Loop loop;
    PreparationThread thread(loop, "preparation");
    auto done = thread.run([begun, release, returned] {
      begun->set_value();
      release->get_future().wait();
      returned->set_value_at_thread_exit();
    });
    begun->get_future().wait();
    done.drop();
  }

  EXPECT_LT(Clock::now() - start, PreparationThread::max_wait + 5s);
  release->set_value();
  returned->get_future().wait();  // without the loop that it was for
}

}  // namespace
}  // namespace evenkeel
