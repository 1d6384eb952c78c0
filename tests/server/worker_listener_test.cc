#include "server/worker_listener.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "built_pools.h"
#include "evenkeel/base/overload.h"
#include "evenkeel/config/load.h"
#include "evenkeel/net/listener.h"
#include "evenkeel/wire/idle_list.h"
#include "server/worker.h"

namespace evenkeel {
namespace {

constexpr std::string_view file = R"(
listeners: [{name: public, address: "127.0.0.1:0"}]
pools: [{name: chat, backends: ["127.0.0.1:1"]}]
)";

/// A listener of a worker without a daemon around it.
class WorkerListenerTest : public testing::Test {
 protected:
  WorkerListenerTest() {
    LoadResult loaded = read_config(std::string(file), "test.yaml", {});
    auto config = std::make_shared<const Config>(std::move(loaded.config));
    auto pool_set = build_pools(*config);
    EXPECT_TRUE(pool_set.ok());
    workers_.push_back(
        std::make_unique<Worker>(0, metrics_registry_, nullptr, nullptr, nullptr, pressure_));
    workers_[0]->adopt(config, *pool_set);
    listener_ = std::make_unique<WorkerListener>(
        *workers_[0],
        ListenerAssignment::Entry{.config = config->listeners.front(),
                                  .id = ListenerId{1},
                                  .fds = {},
                                  .clients = std::make_shared<ClientConnections>()},
        idle_);
    workers_[0]->start(workers_);
  }
  ~WorkerListenerTest() override {
    on_worker([this] { listener_.reset(); });
    workers_[0]->stop();
  }

  /// Runs `work` on the worker's thread, and waits until it is done.
  template <class Work>
  void on_worker(Work work) {
    Loop own;
    bool done = false;
    workers_[0]->loop().post([&] {
      work();
      own.post([&done] { done = true; });
    });
    EXPECT_TRUE(own.run_until([&done] { return done; }, Clock::now() + std::chrono::seconds(20)));
  }

  MetricsRegistry metrics_registry_{1};
  MemoryPressureLevel pressure_;
  BySize<IdleSummary> idle_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::unique_ptr<WorkerListener> listener_;
};

/// A client's connection, from an address of its own.
class Client {
 public:
  Client(const std::string& address, const Endpoint& to)
      : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const Endpoint own = resolve(address, 0)->front();
    EXPECT_EQ(bind(fd_, own.address(), own.size), 0);
    EXPECT_EQ(connect(fd_, to.address(), to.size), 0);
  }
  Client(const Client&) = delete;
  ~Client() { close(fd_); }
  bool is_closed() const {
    char byte = 0;
    return recv(fd_, &byte, 1, MSG_DONTWAIT) == 0;
  }

 private:
  int fd_;
};

TEST_F(WorkerListenerTest, ClosesIdleConnectionsOfLargeClientsFirst) {
  const int fd = *Listener::bind(resolve("127.0.0.1", 0)->front());
  const Endpoint endpoint = Listener::local_endpoint(fd);
  on_worker([&] { listener_->open({fd}); });
  std::deque<Client> clients;
  const auto connect_from = [&](const std::string& address) {
    const std::size_t before = clients.size();
    clients.emplace_back(address, endpoint);
    const Instant end = Clock::now() + std::chrono::seconds(20);
    while (idle_.usual.count + idle_.large.count == before && Clock::now() < end) on_worker([] {});
  };
  for (int i = 0; i < 4; ++i) connect_from("127.0.0.1");
  for (int i = 0; i < 12; ++i) connect_from("127.0.0.2");

  on_worker([&] { listener_->shed_idle_share(0.25, ShedReason::memory); });

  const auto closed = [&](std::size_t from, std::size_t to) {
    return std::count_if(clients.begin() + static_cast<std::ptrdiff_t>(from),
                         clients.begin() + static_cast<std::ptrdiff_t>(to),
                         [](const Client& each) { return each.is_closed(); });
  };
  const Instant end = Clock::now() + std::chrono::seconds(20);
  while (closed(4, 16) < 4 && Clock::now() < end) on_worker([] {});
  EXPECT_EQ(closed(4, 16), 4);
  EXPECT_EQ(closed(0, 4), 0) << "they are idle longer, but of a client with less than its share";
}

class Retiring : public WorkerListenerTest, public testing::WithParamInterface<Retire> {};

INSTANTIATE_TEST_SUITE_P(All, Retiring, testing::Values(Retire::closing, Retire::handed_over));

TEST_P(Retiring, ServesTheConnectionsThatTheKernelHasQueued) {
  const int fd = *Listener::bind(resolve("127.0.0.1", 0)->front());
  const Endpoint endpoint = Listener::local_endpoint(fd);
  const int client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const timeval patience{.tv_sec = 20, .tv_usec = 0};
  setsockopt(client, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);

  on_worker([&] {
    listener_->open({fd});
    EXPECT_EQ(connect(client, endpoint.address(), endpoint.size), 0);
    const std::string_view request = "GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
    EXPECT_EQ(send(client, request.data(), request.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(request.size()));
    listener_->retire(GetParam());
  });

  std::string answer(12, ' ');
  EXPECT_EQ(recv(client, answer.data(), answer.size(), MSG_WAITALL), 12);
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 50")) << answer;
  close(client);
  const Instant end = Clock::now() + std::chrono::seconds(20);
  while (workers_[0]->connections() > 0 && Clock::now() < end) on_worker([] {});
  EXPECT_EQ(workers_[0]->connections(), 0u);
}

}  // namespace
}  // namespace evenkeel
