#include "evenkeel/net/socket.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "evenkeel/net/listener.h"
#include "wire/peer.h"

namespace evenkeel {
namespace {

using namespace std::chrono_literals;

class Sockets : public testing::Test {
 protected:
  ~Sockets() override { loop.drop_spawned(); }
  void connect(int buffer_bytes = 0) {
    const SocketPair ends = connected_pair(buffer_bytes);
    socket = std::make_unique<Socket>(loop, ends.ours);
    peer = std::make_unique<Peer>(loop, ends.theirs);
  }
  std::string read_all() {
    std::string all;
    char bytes[1000];
    while (socket->watch().readable()) {
      const auto got = socket->read_some(bytes, sizeof bytes);
      last = got.status;
      if (got.status != Socket::ReadStatus::bytes) break;
      all.append(bytes, got.size);
    }
    return all;
  }

  Loop loop;
  std::unique_ptr<Socket> socket;
  std::unique_ptr<Peer> peer;
  Socket::ReadStatus last = Socket::ReadStatus::would_block;
};

TEST_F(Sockets, ReadWithoutWaiting) {
  connect();
  char bytes[10];
  EXPECT_EQ(socket->read_some(bytes, sizeof bytes).status, Socket::ReadStatus::would_block);
  EXPECT_FALSE(socket->watch().readable());

  peer->send("hello");
  ASSERT_TRUE(eventually(loop, [&] { return socket->watch().readable(); }));
  EXPECT_EQ(read_all(), "hello");
  EXPECT_FALSE(socket->watch().readable());
}

TEST_F(Sockets, LoseNoByteBetweenTwoEvents) {
  connect();
  std::string expected;
  std::string got;
  for (int i = 0; i < 500; ++i) {
    const std::string piece(static_cast<std::size_t>(1 + i * 37 % 2000),
                            static_cast<char>('a' + i % 26));
    expected += piece;
    peer->send(piece);
    if (i % 3 == 0) {
      drain_loop(loop, 1);
      got += read_all();
    }
  }
  EXPECT_TRUE(eventually(loop, [&] { return got += read_all(), got.size() == expected.size(); }));
  EXPECT_EQ(got, expected);
}

TEST_F(Sockets, DistinguishEndOfStreamFromAFailure) {
  connect();
  peer->send("x");
  peer->finish_sending();
  ASSERT_TRUE(eventually(loop, [&] { return socket->watch().peer_closed(); }));
  EXPECT_EQ(read_all(), "x");
  EXPECT_EQ(last, Socket::ReadStatus::end);

  connect();
  peer->reset();
  ASSERT_TRUE(eventually(loop, [&] { return socket->watch().broken(); }));
  read_all();
  EXPECT_EQ(last, Socket::ReadStatus::failure);
}

TEST_F(Sockets, WriteAllPiecesAtOnceIfTheyFit) {
  connect();
  EXPECT_TRUE(socket->write("head ", "body ", "tail", 1s).ready());
  EXPECT_TRUE(socket->write({}, "only body", {}, 1s).ready());
  EXPECT_TRUE(socket->write({}, {}, {}, 1s).ready());
  EXPECT_EQ(peer->read_bytes(23), "head body tailonly body");
}

TEST_F(Sockets, WriteTheRestLaterWithCopiesOfHeadAndTail) {
  connect(8 * 1024);
  const std::string body(2'000'000, 'b');
  std::string head(300'000, 'h');
  std::string tail(300'000, 't');
  const std::string expected = head + body + tail;

  auto written = socket->write(head, body, tail, 20s);
  EXPECT_FALSE(written.ready());
  head.assign(head.size(), '?');
  tail.assign(tail.size(), '?');

  EXPECT_EQ(peer->read_bytes(expected.size()), expected);
  ASSERT_TRUE(eventually(loop, [&] { return written.ready(); }));
  EXPECT_TRUE(written.take());
}

TEST_F(Sockets, GiveUpOnAPeerThatReadsNothing) {
  connect(8 * 1024);
  const std::string body(5'000'000, 'b');

  auto written = socket->write({}, body, {}, 50ms);

  ASSERT_TRUE(eventually(loop, [&] { return written.ready(); }));
  EXPECT_EQ(written.take().error().fault, Fault::write_timeout);
}

TEST_F(Sockets, GiveUpSoonOnAPeerThatHasStoppedReading) {
  connect(8 * 1024);
  const int much = 200 * 1024;  // so that the reading below does not make the socket writable
  setsockopt(socket->fd(), SOL_SOCKET, SO_SNDBUF, &much, sizeof much);
  const std::string body(5'000'000, 'b');
  auto written = socket->write({}, body, {}, 2s);
  ASSERT_FALSE(eventually(loop, [&] { return written.ready(); }, 100ms));
  peer->read_bytes(20'000);
  const Instant stopped = Clock::now();

  ASSERT_TRUE(eventually(loop, [&] { return written.ready(); }));
  EXPECT_EQ(written.take().error().fault, Fault::write_timeout);
  const Duration took = Clock::now() - stopped;
  EXPECT_GE(took, 1900ms);
  EXPECT_LT(took, 3700ms) << "2.25 s at most, not twice the timeout";
}

TEST_F(Sockets, TolerateAPeerThatReadsSlowly) {
  connect(8 * 1024);
  const std::string body(3'000'000, 'b');
  auto written = socket->write({}, body, {}, 200ms);
  std::size_t got = 0;
  const Instant began = Clock::now();

  while (got < body.size() && Clock::now() - began < 20s) {  // some with every iteration
    peer->seen();
    loop.run_until([] { return false; }, Clock::now() + 1ms);
    got += peer->seen().size();
    peer->seen().clear();
  }

  ASSERT_TRUE(eventually(loop, [&] { return written.ready(); }));
  EXPECT_TRUE(written.take());
}

TEST_F(Sockets, FailWritesToAClosedPeer) {
  connect();
  peer->reset();
  ASSERT_TRUE(eventually(loop, [&] { return socket->watch().broken(); }));
  auto written = socket->write("x", {}, {}, 1s);
  ASSERT_TRUE(written.ready());
  EXPECT_FALSE(written.take());

  connect(8 * 1024);
  const std::string body(5'000'000, 'b');
  auto waiting = socket->write({}, body, {}, 20s);
  EXPECT_FALSE(waiting.ready());
  peer->reset();
  ASSERT_TRUE(eventually(loop, [&] { return waiting.ready(); }));
  EXPECT_EQ(waiting.take().error().fault, Fault::client_gone);
}

TEST_F(Sockets, ReportHowMuchWasSentAtOnce) {
  connect(8 * 1024);
  EXPECT_EQ(socket->write_now("hello"), 5u);
  const std::string much(5'000'000, 'b');
  const std::size_t sent = socket->write_now(much);
  EXPECT_GT(sent, 0u);
  EXPECT_LT(sent, much.size());
  EXPECT_TRUE(eventually(loop, [&] { return socket->write_now(much) == 0; }));
}

TEST_F(Sockets, ReadOnAfterTheEndOfSending) {
  connect();
  socket->shutdown_write();
  EXPECT_EQ(peer->read_to_end(), "");
  peer->send("still");
  EXPECT_TRUE(eventually(loop, [&] { return read_all() == "still"; }));
}

TEST_F(Sockets, AreResetOnDemand) {
  connect();
  socket->reset();
  socket.reset();
  EXPECT_TRUE(peer->sees_reset());
}

// ---- dialling and listening --------------------------------------------------------------------

Task<void> dial_and_keep(Loop& loop, Endpoint endpoint, Instant deadline,
                         std::optional<Result<int>>& into) {
  auto dialled = co_await dial(loop, endpoint, deadline);
  into.emplace(std::move(dialled));
}

TEST(Dial, ConnectsToAListener) {
  Loop loop;
  int accepted = 0;
  Endpoint from;
  const int fd = *Listener::bind(resolve("127.0.0.1", 0)->front());
  const Endpoint where = Listener::local_endpoint(fd);
  Listener listener(loop, fd, [&](int connection, const Endpoint& peer) {
    ++accepted;
    from = peer;
    close(connection);
  });

  std::vector<std::optional<Result<int>>> results(200);
  for (auto& result : results) loop.spawn(dial_and_keep(loop, where, Clock::now() + 20s, result));

  EXPECT_TRUE(eventually(loop, [&] { return accepted == 200; }));
  EXPECT_EQ(from.host(), "127.0.0.1");
  for (auto& result : results) {
    ASSERT_TRUE(result && *result);
    close(**result);
  }
}

TEST(Dial, HasTheKernelFindADeadPeer) {
  Loop loop;
  auto fd = Listener::bind(resolve("127.0.0.1", 0)->front());
  ASSERT_TRUE(fd.ok());

  auto dialling = dial(loop, Listener::local_endpoint(*fd), Clock::now() + 5s);
  ASSERT_TRUE(eventually(loop, [&] { return dialling.ready(); }));
  auto connected = dialling.take();
  ASSERT_TRUE(connected.ok());

  const auto option = [&](int level, int name) {
    int value = 0;
    socklen_t size = sizeof value;
    getsockopt(*connected, level, name, &value, &size);
    return value;
  };
  EXPECT_EQ(option(IPPROTO_TCP, TCP_USER_TIMEOUT), 60'000);
  EXPECT_EQ(option(SOL_SOCKET, SO_KEEPALIVE), 1);
  close(*connected);
  close(*fd);
}

TEST(Dial, ReportsARefusedConnection) {
  Loop loop;
  const int fd = *Listener::bind(resolve("127.0.0.1", 0)->front());
  const Endpoint where = Listener::local_endpoint(fd);
  close(fd);
  std::optional<Result<int>> result;
  loop.spawn(dial_and_keep(loop, where, Clock::now() + 20s, result));

  ASSERT_TRUE(eventually(loop, [&] { return result.has_value(); }));

  ASSERT_FALSE(*result);
  EXPECT_EQ(result->error().fault, Fault::connect_failed);
  EXPECT_TRUE(result->error().not_processed);
  EXPECT_EQ(result->error().side, Side::backend);
}

TEST(Dial, TakesALackOfDescriptorsForOurOwn) {
  Loop loop;
  const int fd = *Listener::bind(resolve("127.0.0.1", 0)->front());
  const Endpoint where = Listener::local_endpoint(fd);
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none{.rlim_cur = 0, .rlim_max = before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  auto dialling = dial(loop, where, Clock::now() + 20s);
  setrlimit(RLIMIT_NOFILE, &before);

  ASSERT_TRUE(dialling.ready());
  const Result<int> result = dialling.take();
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().fault, Fault::overloaded);
  EXPECT_EQ(result.error().side, Side::proxy);
  EXPECT_TRUE(result.error().not_processed);
  close(fd);
}

/// Runs a function in a child process with a network of its own, where 127.0.0.1 has one port for
/// outgoing connections, and ::1 is no address. False: the system does not allow that.
bool in_small_network(bool (*holds)(), bool& held) {
  constexpr int not_allowed = 77;
  const pid_t child = fork();
  if (child == 0) {
    if (unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0) _exit(not_allowed);
    const int ports = open("/proc/sys/net/ipv4/ip_local_port_range", O_WRONLY | O_CLOEXEC);
    const int ipv6 = open("/proc/sys/net/ipv6/conf/all/disable_ipv6", O_WRONLY | O_CLOEXEC);
    const int any = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    ifreq loopback{};
    std::memcpy(loopback.ifr_name, "lo", 3);
    loopback.ifr_flags = IFF_UP;
    const bool ready = write(ports, "40000 40000", 11) == 11 && write(ipv6, "1", 1) == 1 &&
                       ioctl(any, SIOCSIFFLAGS, &loopback) == 0;
    _exit(!ready ? not_allowed : holds() ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  held = status == 0;
  return !WIFEXITED(status) || WEXITSTATUS(status) != not_allowed;
}

/// The result of dialling within 20 s.
Result<int> dialled(Loop& loop, const Endpoint& where) {
  auto dialling = dial(loop, where, Clock::now() + 20s);
  eventually(loop, [&] { return dialling.ready(); });
  return dialling.take();
}

TEST(Dial, TakesALackOfPortsForOurOwn) {
  const auto holds = [] {
    Loop loop;
    const auto listener = Listener::bind(resolve("127.0.0.1", 50000)->front());
    if (!listener.ok()) return false;
    const Endpoint where = Listener::local_endpoint(*listener);
    const auto first = dialled(loop, where);
    const auto second = dialled(loop, where);
    return first.ok() && !second.ok() && second.error().fault == Fault::overloaded &&
           second.error().side == Side::proxy && second.error().not_processed;
  };
  bool held = false;
  if (!in_small_network(holds, held)) GTEST_SKIP() << "no network of its own";
  EXPECT_TRUE(held);
}

TEST(Dial, BlamesAnAddressThatTheHostCannotReach) {
  const auto holds = [] {
    Loop loop;
    const auto result = dialled(loop, resolve("::1", 50000)->front());
    return !result.ok() && result.error().fault == Fault::connect_failed &&
           result.error().side == Side::backend;
  };
  bool held = false;
  if (!in_small_network(holds, held)) GTEST_SKIP() << "no network of its own";
  EXPECT_TRUE(held);
}

TEST(Dial, TimesOut) {
  // A listener with a full queue: the kernel drops connection attempts without an answer.
  Loop loop;
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const Endpoint any = resolve("127.0.0.1", 0)->front();
  ASSERT_EQ(::bind(fd, any.address(), any.size), 0);
  ASSERT_EQ(listen(fd, 0), 0);
  const Endpoint where = Listener::local_endpoint(fd);
  std::vector<std::optional<Result<int>>> results(8);
  for (auto& result : results) loop.spawn(dial_and_keep(loop, where, Clock::now() + 100ms, result));

  ASSERT_TRUE(eventually(loop, [&] { return loop.spawned() == 0; }));

  int timed_out = 0;
  for (auto& result : results) {
    if (*result) {
      close(**result);
    } else {
      EXPECT_EQ(result->error().fault, Fault::connect_timeout);
      EXPECT_TRUE(result->error().not_processed);
      ++timed_out;
    }
  }
  EXPECT_GT(timed_out, 0);
  close(fd);
}

TEST(Dial, LeavesNothingOpenWhenItIsDropped) {
  Loop loop;
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const Endpoint any = resolve("127.0.0.1", 0)->front();
  ASSERT_EQ(::bind(fd, any.address(), any.size), 0);
  ASSERT_EQ(listen(fd, 0), 0);
  const Endpoint where = Listener::local_endpoint(fd);
  const int before = dup(0);
  close(before);
  std::vector<std::optional<Result<int>>> results(8);
  for (auto& result : results) loop.spawn(dial_and_keep(loop, where, never, result));
  loop.drop_spawned();
  for (auto& result : results) {
    if (result && *result) close(**result);
  }

  const int after = dup(0);
  EXPECT_EQ(after, before);
  close(after);
  close(fd);
}

TEST(Listener, ReportsWhyBindFails) {
  const auto taken = Listener::bind(resolve("192.0.2.77", 80)->front());
  ASSERT_FALSE(taken);
  EXPECT_NE(taken.error().detail.find("192.0.2.77:80"), std::string::npos) << taken.error().detail;
}

TEST(Listener, SharesItsPortOnlyOnRequest) {
  const int first = *Listener::bind(resolve("127.0.0.1", 0)->front());
  const Endpoint where = Listener::local_endpoint(first);
  EXPECT_FALSE(Listener::bind(where));
  const auto second = Listener::bind_shared(where);
  ASSERT_TRUE(second);
  close(first);
  close(*second);
}

TEST(Listener, PausesWhenDescriptorsRunOut) {
  Loop loop;
  std::vector<int> accepted;
  const int fd = *Listener::bind(resolve("127.0.0.1", 0)->front());
  const Endpoint where = Listener::local_endpoint(fd);
  Listener listener(loop, fd,
                    [&](int connection, const Endpoint&) { accepted.push_back(connection); });
  const int client = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  rlimit before{};
  getrlimit(RLIMIT_NOFILE, &before);
  rlimit none = before;
  none.rlim_cur = static_cast<rlim_t>(client) + 1;  // open descriptors stay open

  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  ASSERT_EQ(::connect(client, where.address(), where.size), 0);
  const std::uint64_t iterations = loop.iterations();
  loop.run_until([] { return false; }, Clock::now() + 250ms);
  EXPECT_TRUE(accepted.empty());
  EXPECT_LT(loop.iterations() - iterations, 20u);  // it pauses, it does not spin
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);

  EXPECT_TRUE(eventually(loop, [&] { return accepted.size() == 1; }));
  for (const int connection : accepted) close(connection);
  close(client);
}

TEST(Listener, OffersAConnectionThatItKeptByALowerNumberAsSoonAsOneIsFree) {
  Loop loop;
  std::vector<int> accepted;
  const int fd = *Listener::bind(resolve("127.0.0.1", 0)->front());
  const Endpoint where = Listener::local_endpoint(fd);
  const int client = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  std::vector<int> others;
  for (int i = 0; i < 20; ++i) others.push_back(dup(STDERR_FILENO));
  const int most = others.front();
  Listener listener(
      loop, fd, [&](int connection, const Endpoint&) { accepted.push_back(connection); }, nullptr,
      [&](int connection, const Endpoint&) {
        return connection <= most ? Listener::Room::free : Listener::Room::none;
      });

  ASSERT_EQ(::connect(client, where.address(), where.size), 0);
  loop.run_until([] { return false; }, Clock::now() + 50ms);
  EXPECT_TRUE(accepted.empty());
  for (const int other : others) close(other);

  ASSERT_TRUE(eventually(loop, [&] { return accepted.size() == 1; }));
  EXPECT_EQ(::write(accepted.front(), "x", 1), 1);
  char byte = 0;
  EXPECT_EQ(::read(client, &byte, 1), 1);
  close(accepted.front());
  close(client);
}

TEST(Listener, ClosesAConnectionForWhoseClientThereIsNoRoomAndAcceptsTheNext) {
  Loop loop;
  std::vector<int> accepted;
  const int fd = *Listener::bind(resolve("127.0.0.1", 0)->front());
  const Endpoint where = Listener::local_endpoint(fd);
  std::vector<std::uint16_t> offered;
  Listener listener(
      loop, fd, [&](int connection, const Endpoint&) { accepted.push_back(connection); }, nullptr,
      [&](int, const Endpoint& peer) {
        offered.push_back(peer.port());
        return offered.size() == 1 ? Listener::Room::refused : Listener::Room::free;
      });
  const int first = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int second = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

  ASSERT_EQ(::connect(first, where.address(), where.size), 0);
  ASSERT_EQ(::connect(second, where.address(), where.size), 0);

  ASSERT_TRUE(eventually(loop, [&] { return accepted.size() == 1; }));
  EXPECT_EQ(offered.size(), 2u);
  char byte = 0;
  EXPECT_EQ(::read(first, &byte, 1), 0);
  for (const int each : {accepted.front(), first, second}) close(each);
}

}  // namespace
}  // namespace evenkeel
