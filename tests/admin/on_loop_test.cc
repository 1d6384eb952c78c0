#include "admin/on_loop.h"

#include <gtest/gtest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <string>
#include <thread>

namespace evenkeel {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

/// A loop on a thread of its own, and an io_context on this one.
class OnLoop : public testing::Test {
 protected:
  OnLoop() : thread_([this] { loop_.run(); }) {}
  ~OnLoop() override {
    loop_.stop();
    thread_.join();
  }

  template <class Work>
  auto run(Work work, Duration limit) {
    std::optional<typename ResultOnLoop<std::invoke_result_t<Work>>::type> result;
    asio::co_spawn(*io_, store(work, limit, result), asio::detached);
    io_->run();
    return result;
  }

  IoContextPtr io_ = std::make_shared<asio::io_context>(1);
  Loop loop_;
  std::thread thread_;

 private:
  template <class Work, class T>
  Awaitable<void> store(Work work, Duration limit, std::optional<T>& result) {
    auto value = co_await on_loop(io_, loop_, work, limit);
    result = std::move(value);
  }
};

TEST_F(OnLoop, RunsOnTheLoopAndComesBackWithTheResult) {
  const auto where = run([] { return std::this_thread::get_id(); }, seconds(10));

  EXPECT_EQ(where, thread_.get_id());
}

Task<std::string> slept(Loop& loop) {
  co_await loop.sleep_for(milliseconds(1));
  co_return "done";
}

TEST_F(OnLoop, WaitsForATask) {
  EXPECT_EQ(run([this] { return slept(loop_); }, seconds(10)), "done");
}

TEST_F(OnLoop, GivesUpOnALoopThatDoesNotAnswer) {
  Loop stopped;
  const LoopCall<int> call(io_, stopped, [] { return 1; });
  std::optional<int> result = 7;
  asio::co_spawn(
      *io_,
      [](LoopCall<int> waiting, std::optional<int>& out) -> Awaitable<void> {
        auto value = co_await waiting.result(Clock::now() + milliseconds(1));
        out = value;
      }(call, result),
      asio::detached);

  io_->run();

  EXPECT_EQ(result, std::nullopt);
}

TEST_F(OnLoop, AnAnswerThatComesTooLateIsDropped) {
  Loop late;
  {
    const LoopCall<int> dropped(io_, late, [] { return 1; });
  }

  late.run_until([] { return true; }, Clock::now());
  io_->run();
  SUCCEED();
}

}  // namespace
}  // namespace evenkeel
