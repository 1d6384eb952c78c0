// The whole path of a request: a scripted client, the connection, the plan with its filters, the
// forwarder, the links, and a scripted server.
#pragma once

#include <deque>
#include <memory>
#include <string>

#include "built_pools.h"
#include "evenkeel/net/listener.h"
#include "evenkeel/proxy/plan.h"
#include "wire/peer.h"
#include "wire/test_callbacks.h"

namespace evenkeel {

/// A server whose connections a test scripts.
class ScriptedServer {
 public:
  explicit ScriptedServer(Loop& loop) : loop_(loop) {
    const int fd = *Listener::bind(resolve("127.0.0.1", 0)->front());
    endpoint_ = Listener::local_endpoint(fd);
    listener_ = std::make_unique<Listener>(loop, fd, [this](int accepted, const Endpoint&) {
      connections_.push_back(std::make_unique<Peer>(loop_, accepted));
    });
  }

  Address address() const { return {"127.0.0.1", endpoint_.port()}; }
  /// The connection with that number; waits for it.
  Peer& connection(std::size_t number) {
    EXPECT_TRUE(eventually(loop_, [&] { return connections_.size() > number; }))
        << "there were only " << connections_.size() << " connections";
    return *connections_.at(number);
  }
  std::size_t connections() const { return connections_.size(); }
  void stop_listening() { listener_.reset(); }

 private:
  Loop& loop_;
  Endpoint endpoint_;
  std::unique_ptr<Listener> listener_;
  std::deque<std::unique_ptr<Peer>> connections_;
};

class Chain : public testing::Test {
 protected:
  Chain()
      : server(loop),
        metrics_registry(1),
        held_bodies(loop, metrics_registry.worker_metrics(0).replay(), nullptr),
        recorder(loop, metrics_registry.worker_metrics(0), nullptr) {
    PoolConfig pool{.name = "pool"};
    pool.backends.push_back({.address = server.address()});
    config.pools.push_back(pool);
    config.routes.push_back({.name = "all", .targets = {{.pool = "pool"}}});
  }
  ~Chain() override { loop.drop_spawned(); }

  /// Builds the plan from `config`. The first `connect` does so if the test has not.
  void build() {
    pool_set = *build_pools(config);
    host.handler =
        std::make_shared<Plan>(std::make_shared<const Config>(config), pool_set,
                               WorkerContext{loop, metrics_registry, 0, recorder, held_bodies});
  }
  std::unique_ptr<Peer> connect(int buffer_bytes = 0) {
    if (host.handler == nullptr) build();
    const SocketPair ends = connected_pair(buffer_bytes);
    loop.spawn(serve_http1(std::make_unique<Socket>(loop, ends.ours),
                           resolve("192.0.2.7", 5555)->front(), options, host));
    return std::make_unique<Peer>(loop, ends.theirs);
  }
  /// Requests counted as in flight on the server.
  std::uint32_t in_flight() const {
    return pool_set->pools()[0].state->backends()[0]->slots().in_flight();
  }
  /// No slots and no requests are held any more.
  bool at_rest() {
    return eventually(loop, [&] { return in_flight() == 0 && metrics_registry.in_flight(1) == 0; });
  }

  Loop loop;
  ScriptedServer server;
  MetricsRegistry metrics_registry;
  HeldBodies held_bodies;
  RequestRecorder recorder;
  Config config;
  ListenerConfig options;
  std::shared_ptr<const PoolSet> pool_set;
  TestCallbacks host;
};

/// A head without the fields that ForwardingHeadersFilter adds to every request.
inline std::string plain(std::string_view head) {
  std::string kept;
  while (!head.empty()) {
    const auto end = head.find("\r\n");
    const std::string_view line = head.substr(0, end == std::string_view::npos ? end : end + 2);
    const bool ours = line.starts_with("x-request-id: ") || line.starts_with("x-forwarded-") ||
                      line == "via: 1.1 evenkeel\r\n";
    if (!ours) kept += line;
    head.remove_prefix(line.size());
  }
  return kept;
}

}  // namespace evenkeel
