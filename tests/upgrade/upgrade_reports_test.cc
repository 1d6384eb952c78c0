#include "evenkeel/upgrade/upgrade_reports.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <memory>

#include "built_pools.h"
#include "evenkeel/upgrade/handover_packets.h"
#include "wire/peer.h"

namespace evenkeel {
namespace {

using testing::ElementsAre;
using testing::Pair;

const ReplacedProcess::Backend first{"chat", "127.0.0.1:1"};
const ReplacedProcess::Backend second{"chat", "127.0.0.1:2"};

std::shared_ptr<const PoolSet> two_backends() {
  Config config;
  config.pools.push_back({.name = "chat"});
  for (const std::uint16_t port : {std::uint16_t{1}, std::uint16_t{2}}) {
    BackendConfig backend;
    backend.address = {"127.0.0.1", port};
    config.pools[0].backends.push_back(backend);
  }
  return *build_pools(config);
}

const evenkeel::Backend& backend_of(const PoolSet& pool_set, std::size_t number) {
  return *pool_set.pools()[0].state->backends()[number];
}

TEST(UpgradeReport, IsReadAsItWasWritten) {
  const ReplacedProcess report{
      .reported = true, .drained = {first}, .in_flight = {{first, 3}, {second, 1}}};

  const auto read = parse_report(to_text(report));

  ASSERT_TRUE(read.ok());
  EXPECT_EQ(*read, report);
}

TEST(UpgradeReport, OfAnotherVersionIsNotRead) {
  EXPECT_FALSE(parse_report("").ok());
  EXPECT_FALSE(parse_report("evenkeel report 2\n").ok());
  EXPECT_FALSE(parse_report("evenkeel report 1\nwhat chat a:1\n").ok());
  EXPECT_FALSE(parse_report("evenkeel report 1\nin_flight chat a:1\n").ok());
  EXPECT_FALSE(parse_report("evenkeel report 1\ndrained chat\n").ok());
}

TEST(UpgradeReport, AddsWhatTheProcessBeforeHasInFlight) {
  const auto pool_set = two_backends();
  ASSERT_TRUE(backend_of(*pool_set, 0).try_acquire(Instant{}));
  const ReplacedProcess before{
      .reported = true, .drained = {second}, .in_flight = {{first, 2}, {second, 5}}};

  const auto report = report_in_flight(*pool_set, &before, {first, second});

  EXPECT_THAT(report.in_flight, ElementsAre(Pair(first, 3), Pair(second, 5)));
  EXPECT_THAT(report.drained, ElementsAre(second)) << "the first is not drained there yet";
}

TEST(DrainsOfAnUpgrade, EndOnlyIfAReportHasBegunThem) {
  const auto pool_set = two_backends();
  const SharedBackend& one = backend_of(*pool_set, 0).shared();
  SharedBackend& other = backend_of(*pool_set, 1).shared();
  other.state.take_out(OutOfRotation::draining);

  apply_drains({first}, {}, *pool_set);
  EXPECT_TRUE(one.state.is_out(OutOfRotation::draining));

  apply_drains({}, {first}, *pool_set);
  EXPECT_FALSE(one.state.is_out(OutOfRotation::draining));
  EXPECT_TRUE(other.state.is_out(OutOfRotation::draining)) << "the other process may not have it";
}

TEST(DrainsOfAnUpgrade, GoOnForABackendThatTheFileNoLongerHas) {
  const ReplacedProcess::Backend removed{"chat", "127.0.0.1:3"};
  const auto pool_set = two_backends();
  backend_of(*pool_set, 1).state().take_out(OutOfRotation::draining);

  EXPECT_THAT(drained_backends(*pool_set, {first, removed}), ElementsAre(second, removed));
}

/// The two ends of an upgrade, and what each process publishes.
class UpgradeChannel : public testing::Test {
 protected:
  UpgradeChannel() {
    socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends.data());
    for (RuntimeStatusPublisher* const each : {&old_status, &new_status}) {
      each->update([](RuntimeStatus& status) { status.pool_set = two_backends(); });
    }
    new_status.update([](RuntimeStatus& status) { status.replaced.emplace(); });
  }
  ~UpgradeChannel() override {
    loop.drop_spawned();
    close_end(0);
    close_end(1);
  }

  void close_end(std::size_t number) {
    if (ends[number] >= 0) close(std::exchange(ends[number], -1));
  }
  /// Several reports come out of this end.
  bool gets_reports(std::size_t end) {
    int count = 0;
    return eventually(loop, [&] {
      while (const auto text = receive_state(ends[end])) {
        if (parse_report(*text)) ++count;
      }
      return count >= 2;
    });
  }

  Loop loop;
  std::array<int, 2> ends{-1, -1};
  RuntimeStatusPublisher old_status{{}};
  RuntimeStatusPublisher new_status{{}};
};

TEST_F(UpgradeChannel, PassesTheReportsOfTheOldProcessAgainIfNothingHasChanged) {
  loop.spawn(report_to_successor(loop, ends[0], old_status));
  EXPECT_TRUE(gets_reports(1));
}

TEST_F(UpgradeChannel, PassesTheReportsOfTheNewProcessAgainIfNothingHasChanged) {
  loop.spawn(follow_replaced_process(loop, ends[1], [] { return true; }, new_status));
  EXPECT_TRUE(gets_reports(0));
}

TEST_F(UpgradeChannel, LeavesUnknownWhatAnOldProcessWithoutReportsHasInFlight) {
  bool runs = true;
  bool looked_at = false;
  const auto still_runs = [&] {
    looked_at = true;
    return runs;
  };
  loop.spawn(follow_replaced_process(loop, ends[1], still_runs, new_status));

  close_end(0);
  ASSERT_TRUE(eventually(loop, [&] { return looked_at; }));
  EXPECT_TRUE(new_status.snapshot()->replaced == ReplacedProcess{});

  runs = false;
  EXPECT_TRUE(eventually(loop, [&] { return !new_status.snapshot()->replaced; }));
}

/// Both processes report.
class UpgradeReports : public UpgradeChannel {
 protected:
  UpgradeReports() {
    loop.spawn(report_to_successor(loop, ends[0], old_status));
    loop.spawn(follow_replaced_process(loop, ends[1], [] { return true; }, new_status));
  }

  bool replaced_becomes(const ReplacedProcess& expected) {
    return eventually(loop, [&] { return new_status.snapshot()->replaced == expected; });
  }
};

TEST_F(UpgradeReports, SayWhatIsInFlightInTheOldProcess) {
  const auto old_set = old_status.snapshot()->pool_set;
  ASSERT_TRUE(backend_of(*old_set, 1).try_acquire(loop.now()));
  EXPECT_TRUE(replaced_becomes({.reported = true, .drained = {}, .in_flight = {{second, 1}}}));

  backend_of(*old_set, 1).release();
  EXPECT_TRUE(replaced_becomes({.reported = true, .drained = {}, .in_flight = {}}));
}

TEST_F(UpgradeReports, CarryDrainsToTheOldProcess) {
  const evenkeel::Backend& old_backend = backend_of(*old_status.snapshot()->pool_set, 0);
  const evenkeel::Backend& new_backend = backend_of(*new_status.snapshot()->pool_set, 0);

  new_backend.state().take_out(OutOfRotation::draining);
  EXPECT_TRUE(replaced_becomes({.reported = true, .drained = {first}, .in_flight = {}}));
  EXPECT_TRUE(old_backend.state().is_out(OutOfRotation::draining));

  new_backend.put_back(OutOfRotation::draining);
  EXPECT_TRUE(replaced_becomes({.reported = true, .drained = {}, .in_flight = {}}));
  EXPECT_FALSE(old_backend.state().is_out(OutOfRotation::draining));
}

TEST_F(UpgradeReports, LeaveADrainOfTheOldProcessThatTheyHaveNotNamed) {
  const evenkeel::Backend& drained = backend_of(*old_status.snapshot()->pool_set, 0);
  drained.state().take_out(OutOfRotation::draining);

  backend_of(*new_status.snapshot()->pool_set, 1).state().take_out(OutOfRotation::draining);
  EXPECT_TRUE(replaced_becomes({.reported = true, .drained = {second}, .in_flight = {}}));

  EXPECT_TRUE(drained.state().is_out(OutOfRotation::draining));
}

TEST_F(UpgradeReports, EndWithTheOldProcess) {
  EXPECT_TRUE(replaced_becomes({.reported = true, .drained = {}, .in_flight = {}}));

  close_end(0);

  EXPECT_TRUE(eventually(loop, [&] { return !new_status.snapshot()->replaced; }));
}

}  // namespace
}  // namespace evenkeel
