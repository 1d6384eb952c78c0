#include "evenkeel/stats/sheet.h"

#include <gtest/gtest.h>

#include <thread>

namespace evenkeel::testing {
namespace {

using namespace std::chrono_literals;

TEST(Names, KeepTheirIndexHoweverOftenTheyAreAskedFor) {
  Names names;

  const auto first = names.pool("llama");
  const auto second = names.pool("qwen");

  EXPECT_EQ(first, 1u);
  EXPECT_EQ(second, 2u);
  EXPECT_EQ(names.pool("llama"), first);
  EXPECT_EQ(names.view().pools, (std::vector<std::string>{"", "llama", "qwen"}));
}

TEST(Names, TellTheSameBackendOfTwoPoolsApart) {
  Names names;

  EXPECT_NE(names.backend("a", "gpu1:8000"), names.backend("b", "gpu1:8000"));
  EXPECT_EQ(names.backend("a", "gpu1:8000"), names.backend("a", "gpu1:8000"));
}

TEST(Names, ListEachLeadOnceAndInOrder) {
  Names names;

  names.lead(2, 1);
  names.lead(1, 2);
  names.lead(2, 1);

  using Leads = std::vector<std::pair<std::uint32_t, std::uint32_t>>;
  EXPECT_EQ(names.view().leads, (Leads{{1, 2}, {2, 1}}));
}

TEST(Growing, KeepsAddressesWhileItGrows) {
  Growing<Counter> counters;
  Counter* first = &counters.at(0);
  first->add(7);

  for (std::uint32_t i = 1; i < 10'000; ++i) counters.at(i).add(i);

  EXPECT_EQ(&counters.at(0), first);
  for (std::uint32_t i = 1; i < 10'000; ++i) ASSERT_EQ(counters.find(i)->value(), i);
}

TEST(Growing, FindsNothingWhereNobodyAsked) {
  Growing<Counter> counters;
  counters.at(0);

  EXPECT_NE(counters.find(3), nullptr);
  EXPECT_EQ(counters.find(4), nullptr);
  EXPECT_EQ(counters.find(Growing<Counter>::limit - 1), nullptr);
}

TEST(StatusCounters, CountEachStatusAndWhateverIsNoneAsZero) {
  StatusCounters counters;

  for (const int status : {100, 200, 200, 599, 0, 99, 600, -1}) counters.count(status);

  EXPECT_EQ(counters.value(100), 1u);
  EXPECT_EQ(counters.value(200), 2u);
  EXPECT_EQ(counters.value(201), 0u);
  EXPECT_EQ(counters.value(404), 0u);
  EXPECT_EQ(counters.value(599), 1u);
  EXPECT_EQ(counters.value(0), 4u);
}

TEST(Sheet, CountsARequestByRoutePoolAndStatus) {
  Sheet sheet;

  sheet.count({.pool = 2, .route = 1, .status = 200, .duration = 1s, .response_bytes = 10});
  sheet.count({.pool = 2, .route = 1, .status = 503, .duration = 1ms, .request_bytes = 5});

  EXPECT_EQ(sheet.find_requests(1, 2)->value(200), 1u);
  EXPECT_EQ(sheet.find_requests(1, 2)->value(503), 1u);
  EXPECT_EQ(sheet.find_requests(1, 1)->value(200), 0u);
  EXPECT_EQ(sheet.find_requests(9, 2), nullptr);
  EXPECT_EQ(sheet.request_bytes(), 5u);
  EXPECT_EQ(sheet.response_bytes(), 10u);
}

TEST(Sheet, ObservesOnlyWhatIsKnown) {
  Sheet sheet;

  sheet.count({.pool = 1, .route = 1, .status = 200, .first_byte = 2ms, .waited = 1ms});
  sheet.count({.pool = 1, .route = 1, .status = 502});

  HistogramTotals first_byte;
  HistogramTotals wait;
  HistogramTotals overhead;
  sheet.find_pool(1)->first_byte.add_to(first_byte);
  sheet.find_pool(1)->wait.add_to(wait);
  sheet.overhead().add_to(overhead);
  EXPECT_DOUBLE_EQ(first_byte.sum_seconds, 2e-3);
  EXPECT_EQ(first_byte.counts[0], 0u);
  EXPECT_EQ(wait.counts[0], 2u);
  EXPECT_EQ(overhead.sum_seconds, 0);
}

TEST(Sheets, SumWhatComesOnOneWorkerAndGoesOnAnother) {
  Sheets sheets(2);

  sheets.sheet(0).listener(1).opened.add(3);
  sheets.sheet(1).listener(1).closed.add(2);
  sheets.sheet(0).pool(1).in_flight.add();
  sheets.sheet(1).pool(1).in_flight.add();
  sheets.sheet(1).pool(1).waiting.add();

  EXPECT_EQ(sheets.connections(1), 1);
  EXPECT_EQ(sheets.in_flight(1), 2);
  EXPECT_EQ(sheets.waiting(1), 1);
}

TEST(Sheets, SumABackendOverWorkersEvenIfNoneHasUsedIt) {
  Sheets sheets(3);
  sheets.sheet(0).backend(1).links_idle.add(2);
  sheets.sheet(2).backend(1).links_busy.add();
  sheets.sheet(2).backend(1).latency.observe(2s);

  const BackendTotals used = sheets.backend_totals(1);
  const BackendTotals unused = sheets.backend_totals(500);

  EXPECT_EQ(used.links_idle, 2);
  EXPECT_EQ(used.links_busy, 1);
  EXPECT_DOUBLE_EQ(used.latency.sum_seconds, 2);
  EXPECT_EQ(unused.latency.counts.size(), request_bounds.size() + 1);
}

TEST(Sheets, CanBeReadWhileTheyGrow) {
  constexpr std::uint32_t pools = 300;
  constexpr int rounds = 100;
  Sheets sheets(2);
  const auto write = [&](unsigned worker) {
    for (int round = 0; round < rounds; ++round) {
      for (std::uint32_t pool = 1; pool < pools; ++pool) {
        sheets.sheet(worker).pool(pool).in_flight.add();
        sheets.sheet(worker).count({.pool = pool, .route = pool % 7, .status = 200});
      }
    }
  };

  std::thread one(write, 0);
  std::thread other(write, 1);
  std::int64_t seen = 0;
  const std::int64_t all = std::int64_t{2} * rounds;
  while (seen < all) {
    const std::int64_t now = sheets.in_flight(pools - 1);
    ASSERT_GE(now, seen);
    seen = now;
  }
  one.join();
  other.join();

  for (std::uint32_t pool = 1; pool < pools; ++pool) {
    ASSERT_EQ(sheets.in_flight(pool), all);
    ASSERT_EQ(sheets.sheet(0).find_requests(pool % 7, pool)->value(200), std::uint64_t{rounds});
  }
}

}  // namespace
}  // namespace evenkeel::testing
