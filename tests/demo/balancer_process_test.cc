#include "demo/balancer_process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <fstream>

namespace evenkeel {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::HasSubstr;

/// A program that stands in for the balancer.
class Script {
 public:
  explicit Script(const std::string& body) : name_(testing::TempDir() + "balancer-XXXXXX") {
    close(mkstemp(name_.data()));
    std::ofstream(name_) << "#!/bin/sh\n" << body;
    chmod(name_.c_str(), 0700);
  }
  ~Script() { unlink(name_.c_str()); }
  const std::string& name() const { return name_; }

 private:
  std::string name_;
};

constexpr const char* announce =
    "echo 'listening name=public address=127.0.0.1:1234' >&2\n"
    "echo 'listening name=admin address=[::1]:99' >&2\n"
    "echo ready >&2\n";

bool exists(pid_t pid) { return kill(pid, 0) == 0; }

TEST(BalancerProcess, IsReadyWithItsAnnouncedAddresses) {
  const Script script(std::string(announce) + "exec sleep 60\n");
  const TerminationSignals interrupts;

  auto balancer = BalancerProcess::start(script.name(), "", interrupts, seconds(20));

  ASSERT_TRUE(balancer) << balancer.error().detail;
  EXPECT_EQ((*balancer)->public_address(), "127.0.0.1:1234");
  EXPECT_EQ((*balancer)->admin_address(), "[::1]:99");
}

TEST(BalancerProcess, ReadsItsConfigurationFromStandardInput) {
  const Script script("echo \"$*\" >&2\ncat >&2\n" + std::string(announce) + "exec sleep 60\n");
  const TerminationSignals interrupts;
  std::string config = "first: line\n";
  for (int i = 0; i < 10'000; ++i) config += "# more than a pipe holds\n";
  config += "last: line\n";

  auto balancer = BalancerProcess::start(script.name(), config, interrupts, seconds(20));

  ASSERT_TRUE(balancer) << balancer.error().detail;
  EXPECT_THAT((*balancer)->last_output(), HasSubstr("last: line\n"));
}

TEST(BalancerProcess, ReportsWhyItDidNotStart) {
  const Script script("echo 'the port is taken' >&2\nexit 1\n");
  const TerminationSignals interrupts;

  auto balancer = BalancerProcess::start(script.name(), "", interrupts, seconds(20));
  auto missing = BalancerProcess::start("/nowhere/at-all", "", interrupts, seconds(20));

  ASSERT_FALSE(balancer);
  EXPECT_THAT(balancer.error().detail, HasSubstr("the port is taken"));
  ASSERT_FALSE(missing);
  EXPECT_THAT(missing.error().detail, HasSubstr("cannot be executed"));
}

TEST(BalancerProcess, IsStoppedWhenNotReadyInTime) {
  const Script script("echo \"pid $$\" >&2\nexec sleep 60\n");
  const TerminationSignals interrupts;

  auto balancer = BalancerProcess::start(script.name(), "", interrupts, milliseconds(500));

  ASSERT_FALSE(balancer);
  const std::string& said = balancer.error().detail;
  EXPECT_THAT(said, HasSubstr("did not get ready in time"));
  const std::size_t pid = said.find("pid ");
  ASSERT_NE(pid, std::string::npos) << said;
  EXPECT_FALSE(exists(std::stoi(said.substr(pid + 4))));
}

TEST(BalancerProcess, StopsOnSigterm) {
  const Script script("trap 'exit 7' TERM\n" + std::string(announce) +
                      "while :; do sleep 0.01; done\n");
  const TerminationSignals interrupts;
  auto balancer = BalancerProcess::start(script.name(), "", interrupts, seconds(20));
  ASSERT_TRUE(balancer) << balancer.error().detail;
  const pid_t pid = (*balancer)->pid();

  const int code = (*balancer)->stop(seconds(20));

  EXPECT_EQ(code, 7);
  EXPECT_FALSE(exists(pid));
  EXPECT_EQ((*balancer)->stop(seconds(20)), 7);
}

TEST(BalancerProcess, IsKilledWhenItIgnoresSigterm) {
  const Script script("trap '' TERM\n" + std::string(announce) + "while :; do sleep 0.01; done\n");
  const TerminationSignals interrupts;
  auto balancer = BalancerProcess::start(script.name(), "", interrupts, seconds(20));
  ASSERT_TRUE(balancer) << balancer.error().detail;
  const pid_t pid = (*balancer)->pid();

  const int code = (*balancer)->stop(milliseconds(50));

  EXPECT_EQ(code, 128 + SIGKILL);
  EXPECT_FALSE(exists(pid));
}

TEST(BalancerProcess, ClosesItsOutputOnUnexpectedExit) {
  const Script script("trap \"echo 'out of luck' >&2; exit 3\" USR1\n" + std::string(announce) +
                      "while :; do sleep 0.01; done\n");
  const TerminationSignals interrupts;
  auto balancer = BalancerProcess::start(script.name(), "", interrupts, seconds(20));
  ASSERT_TRUE(balancer) << balancer.error().detail;

  kill((*balancer)->pid(), SIGUSR1);
  const int fd = (*balancer)->output_fd();
  while ((*balancer)->take_output())
    ASSERT_EQ(wait_any_readable({&fd, 1}, Clock::now() + seconds(20)), 0);

  EXPECT_THAT((*balancer)->last_output(), HasSubstr("out of luck"));
  EXPECT_EQ((*balancer)->stop(seconds(20)), 3);
}

TEST(BalancerProcess, EndsWithItsOwner) {
  const Script script(std::string(announce) + "exec sleep 60\n");
  const TerminationSignals interrupts;
  auto balancer = BalancerProcess::start(script.name(), "", interrupts, seconds(20));
  ASSERT_TRUE(balancer) << balancer.error().detail;
  const pid_t pid = (*balancer)->pid();

  balancer->reset();

  EXPECT_FALSE(exists(pid));
}

TEST(BalancerProcess, StopsWaitingAfterAnInterrupt) {
  const Script script("exec sleep 60\n");
  const TerminationSignals interrupts;
  raise(SIGINT);

  auto balancer = BalancerProcess::start(script.name(), "", interrupts, seconds(20));

  ASSERT_FALSE(balancer);
  EXPECT_EQ(balancer.error().detail, "interrupted");
}

}  // namespace
}  // namespace evenkeel
