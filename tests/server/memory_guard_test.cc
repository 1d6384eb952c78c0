#include "server/memory_guard.h"

#include <gtest/gtest.h>

#include "evenkeel/server/process_environment.h"

namespace evenkeel {
namespace {

constexpr std::uint64_t limit = 1000ull << 20;

MemoryPressure at(double share, MemoryPressure before = MemoryPressure::none) {
  return memory_pressure_at(static_cast<std::uint64_t>(share * static_cast<double>(limit)), limit,
                            before);
}

TEST(MemoryPressure, RisesAtNinetyAndNinetyFivePercent) {
  EXPECT_EQ(at(0.5), MemoryPressure::none);
  EXPECT_EQ(at(0.899), MemoryPressure::none);
  EXPECT_EQ(at(0.901), MemoryPressure::high);
  EXPECT_EQ(at(0.949), MemoryPressure::high);
  EXPECT_EQ(at(0.951), MemoryPressure::critical);
  EXPECT_EQ(at(1.5), MemoryPressure::critical);
}

TEST(MemoryPressure, FallsTwoPercentLower) {
  EXPECT_EQ(at(0.94, MemoryPressure::critical), MemoryPressure::critical);
  EXPECT_EQ(at(0.92, MemoryPressure::critical), MemoryPressure::high);
  EXPECT_EQ(at(0.89, MemoryPressure::high), MemoryPressure::high);
  EXPECT_EQ(at(0.87, MemoryPressure::high), MemoryPressure::none);
  EXPECT_EQ(at(0.5, MemoryPressure::critical), MemoryPressure::none);
}

constexpr Instant start{std::chrono::hours(1)};

TEST(PressureReports, LogARiseAtOnce) {
  PressureReports reports;
  EXPECT_FALSE(reports.due(MemoryPressure::none, start));
  EXPECT_TRUE(reports.due(MemoryPressure::high, start));
  EXPECT_TRUE(reports.due(MemoryPressure::critical, start + std::chrono::milliseconds(250)));
}

TEST(PressureReports, LogALevelThatComesAndGoesOnce) {
  PressureReports reports;
  EXPECT_TRUE(reports.due(MemoryPressure::critical, start));
  for (int second = 1; second < 10; ++second) {
    const Instant now = start + std::chrono::seconds(second);
    EXPECT_FALSE(reports.due(MemoryPressure::high, now));
    EXPECT_FALSE(reports.due(MemoryPressure::critical, now));
  }
}

TEST(PressureReports, LogAFallThatLasts) {
  PressureReports reports;
  EXPECT_TRUE(reports.due(MemoryPressure::critical, start));
  EXPECT_FALSE(reports.due(MemoryPressure::none, start + std::chrono::seconds(1)));
  EXPECT_TRUE(reports.due(MemoryPressure::none, start + std::chrono::seconds(11)));
  EXPECT_FALSE(reports.due(MemoryPressure::none, start + std::chrono::seconds(30)));
}

TEST(MemoryLimit, IsTheFilesOrAShareOfWhatThereIs) {
  using Kind = MemoryLimit::Kind;
  const MemoryUsage usage;
  EXPECT_EQ(memory_limit({.kind = Kind::off}, usage), std::nullopt);
  EXPECT_EQ(memory_limit({.kind = Kind::automatic}, usage), usage.cgroup_limit());
  EXPECT_EQ(memory_limit({.kind = Kind::bytes, .bytes = 7}, usage), 7u);

  const auto whole = usage.cgroup_limit() ? usage.cgroup_limit() : usage.machine_memory();
  ASSERT_TRUE(whole.has_value());
  const auto half = memory_limit({.kind = Kind::share, .share = 0.5}, usage);
  EXPECT_EQ(process_environment().memory_limit({.kind = Kind::share, .share = 0.5}), half)
      << "the check of a file asks the same";
  EXPECT_NEAR(static_cast<double>(*half), static_cast<double>(*whole) / 2, 1e6);
}

}  // namespace
}  // namespace evenkeel
