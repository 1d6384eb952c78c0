#include "server/worker_listener.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

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
class Retiring : public testing::TestWithParam<Retire> {
 protected:
  Retiring() {
    LoadResult loaded = read_config(std::string(file), "test.yaml", {});
    auto config = std::make_shared<const Config>(std::move(loaded.config));
    auto pool_set = PoolSet::build(*config);
    EXPECT_TRUE(pool_set.ok());
    workers_.push_back(std::make_unique<Worker>(0, metrics_registry_, nullptr, pressure_));
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
  ~Retiring() override {
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
