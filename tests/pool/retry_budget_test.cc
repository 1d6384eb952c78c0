#include "evenkeel/pool/retry_budget.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace evenkeel {
namespace {

int withdraw_all(RetryBudget& budget) {
  int taken = 0;
  while (budget.withdraw()) ++taken;
  return taken;
}

TEST(RetryBudget, BeginsWithItsReserve) {
  RetryBudget budget;
  EXPECT_EQ(withdraw_all(budget), RetryBudget::reserve);
  EXPECT_FALSE(budget.withdraw());
}

TEST(RetryBudget, GrowsByAShareOfEachAnsweredRequest) {
  RetryBudget budget;
  withdraw_all(budget);

  for (int i = 0; i < 15; ++i) budget.deposit(0.2);

  EXPECT_EQ(withdraw_all(budget), 3);
}

TEST(RetryBudget, NeverGrowsBeyondItsShareOfTheRequestsInFlight) {
  RetryBudget budget;
  for (int i = 0; i < 1000; ++i) budget.deposit(0.2);
  EXPECT_EQ(budget.left(), RetryBudget::reserve);

  budget.set_active(1000, 0.2);
  for (int i = 0; i < 10'000; ++i) budget.deposit(0.2);

  EXPECT_EQ(withdraw_all(budget), 200);
}

TEST(RetryBudget, ForgetsALargeLoadSlowly) {
  RetryBudget budget;
  budget.set_active(1000, 0.2);
  for (int i = 0; i < 1000; ++i) budget.deposit(0.2);

  for (int tick = 0; tick < 10; ++tick) budget.set_active(0, 0.2);
  EXPECT_GT(budget.left(), 150) << "backends that fail take the requests in flight with them";

  for (int tick = 0; tick < 1000; ++tick) budget.set_active(0, 0.2);
  EXPECT_EQ(budget.left(), RetryBudget::reserve);
}

TEST(RetryBudget, IsNotOverdrawnByManyWorkers) {
  RetryBudget budget;
  std::atomic<int> taken{0};
  std::vector<std::thread> workers;
  for (int i = 0; i < 4; ++i) {
    workers.emplace_back([&] {
      for (int n = 0; n < 1000; ++n) taken += budget.withdraw() ? 1 : 0;
    });
  }
  for (std::thread& worker : workers) worker.join();
  EXPECT_LE(taken, RetryBudget::reserve);
  EXPECT_GE(budget.left(), 0);
}

}  // namespace
}  // namespace evenkeel
