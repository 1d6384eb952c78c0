#include "server/service_notifier.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>
#include <ctime>
#include <map>
#include <string>
#include <thread>

namespace evenkeel {
namespace {

using namespace std::chrono_literals;

/// Listens in place of systemd, on a datagram socket with a path or an abstract name.
class FakeSystemd {
 public:
  explicit FakeSystemd(bool abstract) {
    char folder[] = "/tmp/evenkeel-notify-XXXXXX";
    folder_ = mkdtemp(folder);
    name_ = (abstract ? "@" : "") + folder_ + "/notify";
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, name_.data(), name_.size());
    if (abstract) address.sun_path[0] = '\0';
    fd_ = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name_.size());
    EXPECT_EQ(bind(fd_, reinterpret_cast<sockaddr*>(&address), size), 0);
    // Longer than anything here takes: a missing datagram fails the test.
    const timeval patience{.tv_sec = 20, .tv_usec = 0};
    setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  }
  ~FakeSystemd() {
    close(fd_);
    unlink(name_.c_str());
    rmdir(folder_.c_str());
  }

  /// The next datagram; "nothing" if none comes.
  std::string receive() const {
    char text[4096];
    const ssize_t size = recv(fd_, text, sizeof text, 0);
    return size < 0 ? "nothing" : std::string(text, static_cast<std::size_t>(size));
  }
  bool silent() const {
    char byte;
    return recv(fd_, &byte, 1, MSG_DONTWAIT | MSG_PEEK) < 0;
  }
  const std::string& name() const { return name_; }

 private:
  std::string folder_;
  std::string name_;
  int fd_ = -1;
};

using Variables = std::map<std::string, std::string>;

ServiceNotifier::Variable reader_of(Variables variables) {
  return [variables = std::move(variables)](const std::string& name) {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  };
}

class Notifier : public testing::TestWithParam<bool> {};

INSTANTIATE_TEST_SUITE_P(Sockets, Notifier, testing::Bool(),
                         [](const auto& param) { return param.param ? "Abstract" : "AtAPath"; });

TEST_P(Notifier, SendsOneDatagramPerState) {
  const FakeSystemd manager(GetParam());
  ServiceNotifier notifier(reader_of({{"NOTIFY_SOCKET", manager.name()}}));
  EXPECT_TRUE(notifier.active());

  notifier.ready("serving 4 pools");
  EXPECT_EQ(manager.receive(), "READY=1\nSTATUS=serving 4 pools");
  notifier.status("two\nlines");
  EXPECT_EQ(manager.receive(), "STATUS=two lines");
  notifier.extend_timeout(1500ms);
  EXPECT_EQ(manager.receive(), "EXTEND_TIMEOUT_USEC=1500000");
  notifier.stopping("draining 37 connections");
  EXPECT_EQ(manager.receive(), "STOPPING=1\nSTATUS=draining 37 connections");
}

TEST(ServiceNotifier, SendsTheReloadTimestamp) {
  const FakeSystemd manager(false);
  ServiceNotifier notifier(reader_of({{"NOTIFY_SOCKET", manager.name()}}));
  const auto monotonic_now = [] {
    timespec time{};
    clock_gettime(CLOCK_MONOTONIC, &time);
    return std::int64_t{time.tv_sec} * 1'000'000 + time.tv_nsec / 1000;
  };

  const auto before = monotonic_now();
  notifier.reloading();
  const auto after = monotonic_now();

  const std::string received = manager.receive();
  long long sent = 0;
  ASSERT_EQ(std::sscanf(received.c_str(), "RELOADING=1\nMONOTONIC_USEC=%lld\n", &sent), 1)
      << received;
  EXPECT_GE(sent, before);
  EXPECT_LE(sent, after);
}

TEST(ServiceNotifier, HandsOverWithAPingOfTheWatchdog) {
  const FakeSystemd manager(false);
  ServiceNotifier watched(
      reader_of({{"NOTIFY_SOCKET", manager.name()}, {"WATCHDOG_USEC", "500000"}}));
  ServiceNotifier plain(reader_of({{"NOTIFY_SOCKET", manager.name()}}));

  watched.hand_over(7, "serving");
  EXPECT_EQ(manager.receive(), "MAINPID=7\nWATCHDOG=1\nREADY=1\nSTATUS=serving");
  plain.hand_over(7, "serving");
  EXPECT_EQ(manager.receive(), "MAINPID=7\nREADY=1\nSTATUS=serving");

  watched.status("not the main process");
  EXPECT_TRUE(manager.silent());
}

TEST(ServiceNotifier, SendsNothingWithoutANotifySocket) {
  const std::string too_long = "/" + std::string(sizeof(sockaddr_un::sun_path), 'x');
  for (const Variables& variables :
       {Variables{}, Variables{{"NOTIFY_SOCKET", ""}}, Variables{{"NOTIFY_SOCKET", "relative"}},
        Variables{{"NOTIFY_SOCKET", "vsock:2:1234"}}, Variables{{"NOTIFY_SOCKET", too_long}}}) {
    ServiceNotifier notifier(reader_of(variables));
    EXPECT_FALSE(notifier.active());
    notifier.ready("not sent");
  }
  ServiceNotifier gone(reader_of({{"NOTIFY_SOCKET", "/nonexistent/notify"}}));
  gone.ready("not sent");
}

TEST(ServiceNotifier, IgnoresTheWatchdogOfAnotherProcess) {
  const FakeSystemd manager(false);
  const auto watchdog = [&](Variables variables) {
    variables["NOTIFY_SOCKET"] = manager.name();
    return ServiceNotifier(reader_of(variables)).watchdog();
  };
  const std::string own = std::to_string(getpid());

  EXPECT_EQ(watchdog({{"WATCHDOG_USEC", "500000"}, {"WATCHDOG_PID", own}}), 500ms);
  EXPECT_EQ(watchdog({{"WATCHDOG_USEC", "500000"}}), 500ms);
  EXPECT_EQ(watchdog({{"WATCHDOG_USEC", "500000"}, {"WATCHDOG_PID", "1"}}), std::nullopt);
  EXPECT_EQ(watchdog({{"WATCHDOG_USEC", "500000"}, {"WATCHDOG_PID", "me"}}), std::nullopt);
  EXPECT_EQ(watchdog({{"WATCHDOG_USEC", "0"}}), std::nullopt);
  EXPECT_EQ(watchdog({{"WATCHDOG_USEC", "soon"}}), std::nullopt);
  EXPECT_EQ(watchdog({}), std::nullopt);
}

TEST(ServiceNotifier, WithholdsThePingWhileALoopIsStalled) {
  const FakeSystemd manager(false);
  ServiceNotifier notifier(
      reader_of({{"NOTIFY_SOCKET", manager.name()}, {"WATCHDOG_USEC", "100000"}}));
  Loop own;
  Loop worker;  // turns only from below on, in a thread of its own
  own.spawn(notifier.feed_watchdog(own, {&worker}));

  own.run_until([] { return false; }, Clock::now() + 300ms);
  EXPECT_TRUE(manager.silent()) << "a loop has not responded for three times the watchdog's time";

  std::thread thread([&] { worker.run(); });
  own.run_until([&] { return !manager.silent(); }, Clock::now() + 20s);
  EXPECT_EQ(manager.receive(), "WATCHDOG=1");
  own.run_until([&] { return !manager.silent(); }, Clock::now() + 20s);
  EXPECT_EQ(manager.receive(), "WATCHDOG=1") << "and again, while the loop runs";
  worker.stop();
  thread.join();
  own.drop_spawned();
}

TEST(ServiceNotifier, WatchdogTaskEndsWithoutAWatchdog) {
  const FakeSystemd manager(false);
  ServiceNotifier notifier(reader_of({{"NOTIFY_SOCKET", manager.name()}}));
  Loop own;

  Task<void> feeding = notifier.feed_watchdog(own, {});

  EXPECT_TRUE(feeding.ready());
  EXPECT_TRUE(manager.silent());
}

}  // namespace
}  // namespace evenkeel
