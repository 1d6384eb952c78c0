// A backend's poller and the server that it polls.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "upstream/gpu_exporter.h"
#include "upstream/metrics_poller.h"
#include "upstream/test_server.h"

namespace evenkeel {

inline constexpr Duration patience = std::chrono::seconds(20);

inline std::string vllm_saying(int running, int waiting, double kv) {
  return "# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running{engine=\"0\"} " +
         std::to_string(running) + "\nvllm:num_requests_waiting{engine=\"0\"} " +
         std::to_string(waiting) + "\nvllm:kv_cache_usage_perc{engine=\"0\"} " +
         std::to_string(kv) + "\n";
}

/// A server whose response can be changed while it runs.
class ExpositionServer final : public FrontendCallbacks, public Handler {
 public:
  ExpositionServer(Loop& loop, std::string says) : body(std::move(says)), loop_(loop) {
    open(listening_fd());
  }

  std::string body;
  int status = 200;
  std::string content_type = "text/plain; version=0.0.4";
  int short_status = 404;  // as of a server without a short page
  std::string short_body;
  bool hangs = false;

  Endpoint endpoint() const { return endpoint_; }
  std::string authority() const { return endpoint_.text(); }
  std::string url() const { return "http://" + authority() + "/metrics"; }
  std::size_t connections() const { return connections_.size(); }
  const std::vector<std::string>& requests() const { return requests_; }
  const std::string& last_key() const { return last_key_; }

  /// Closes all connections, and refuses new ones.
  void close() {
    listener_.reset();
    connections_.clear();
  }
  void open_again() {
    auto fd = Listener::bind(endpoint_);
    ASSERT_TRUE(fd.ok());
    open(*fd);
  }
  void end_connections() { connections_.clear(); }

 private:
  void open(int fd) {
    endpoint_ = Listener::local_endpoint(fd);
    listener_.emplace(loop_, fd, [this](int accepted, const Endpoint& peer) {
      connections_.push_back(
          serve_http1(std::make_unique<Socket>(loop_, accepted), peer, options_, *this));
    });
  }
  std::shared_ptr<Handler> plan() override { return {std::shared_ptr<void>(), this}; }
  void refused(const Refusal&) override {}
  bool draining() const override { return false; }
  IdleList& idle_connections(ClientNumber) override { return idle_; }
  void closed(const ListenerConfig&, ClientNumber) override {}

  Task<Result<Response>> handle(Request& request) override {
    requests_.push_back(std::string(request.path));
    last_key_ = request.fields.value("authorization").value_or("");
    if (hangs) {
      Signal never_raised(loop_);
      co_await never_raised.wait();
    }
    Response response;
    const bool in_short = request.path.starts_with("/metrics/?name");
    response.status = in_short ? short_status : status;
    response.fields.add("content-type", content_type);
    response.body = make_body(in_short ? short_body : body);
    co_return response;
  }

  Loop& loop_;
  ListenerConfig options_;
  Endpoint endpoint_;
  std::vector<std::string> requests_;
  std::string last_key_;
  IdleList idle_;
  std::optional<Listener> listener_;
  std::vector<Task<void>> connections_;
};

inline MetricsPollSpec poll_spec(
    std::string engine, std::chrono::milliseconds interval = std::chrono::milliseconds(10)) {
  MetricsPollSpec spec{.engine = std::move(engine)};
  spec.config.interval = interval;
  return spec;
}

/// Resolves a host on this thread.
inline Task<Result<std::vector<Endpoint>>> resolve_at_once(std::string host, std::uint16_t port) {
  return resolve(host, port);
}

/// A backend, its poller, and a loop to turn.
struct Polling {
  Polling(Loop& turning, const MetricsPollSpec& spec, const Endpoint& server, std::string key = {},
          GpuExporters* shared = nullptr)
      : loop(turning), own(turning, resolve_at_once, 1) {
    ServerAccess access{
        .addresses = {server}, .authority = server.text(), .key = {.value = std::move(key)}};
    poller.emplace(loop, spec, access, backend, shared == nullptr ? own : *shared);
  }

  bool until(const std::function<bool()>& done) {
    return loop.run_until(done, Clock::now() + patience);
  }
  LoadSample values() const { return backend->signals().values(); }
  std::optional<Duration> age() const { return backend->signals().age(Clock::now()); }
  bool until_running(double running) {
    return until([&] { return values().running == running; });
  }
  bool until_failing() {
    return until([&] { return poller->status().engine.state == PollRecord::State::failing; });
  }

  Loop& loop;
  GpuExporters own;
  BackendPtr backend = std::make_shared<Backend>(BackendSpec{.id = "gpu:8000"});
  std::optional<MetricsPoller> poller;
};

}  // namespace evenkeel
