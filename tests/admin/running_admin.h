// An admin server on a free port, with a daemon's loops and status behind it.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "admin/raw_client.h"
#include "built_pools.h"
#include "evenkeel/admin/admin_server.h"
#include "evenkeel/admin/control.h"
#include "evenkeel/config/load.h"
#include "evenkeel/net/listener.h"

namespace evenkeel::testing {

inline constexpr std::string_view two_pools = R"(
pools:
  - name: chat
    backends: [{address: "127.0.0.1:8001", weight: 5}, "127.0.0.1:8002"]
  - name: embed
    backends: ["127.0.0.1:8002", "[::1]:8003"]
routes:
  - {match: {path: /embed}, pool: embed}
  - {match: {path: /**}, pool: chat}
)";

/// Records calls, changes nothing. Set up before the calls, read after their replies.
struct RecordingControl final : Control {
  Task<std::vector<Problem>> reload() override {
    ++reloads;
    return std::vector<Problem>(problems);
  }
  Task<Result<Done>> upgrade() override {
    ++upgrades;
    if (busy) return Result<Done>(Error{.detail = "the new process did not start"});
    return Result<Done>(Done{});
  }
  Task<Result<ReloadPreview>> preview(PreviewRequest asked) override {
    if (busy) return Result<ReloadPreview>(Error{.detail = "another preview is in progress"});
    previews.push_back(asked.text + (asked.authorized ? " (authorized)" : ""));
    return Result<ReloadPreview>(ReloadPreview{
        .problems = problems, .changes = {"pool chat: backend added"}, .takeover = {"workers"}});
  }
  Task<Result<Done>> set_weight(std::string pool, std::string backend,
                                std::uint32_t weight) override {
    weights.push_back(pool + " " + backend + " " + std::to_string(weight));
    return Result<Done>(Done{});
  }

  void set_drain_end(const std::string& pool, const std::string& backend,
                     std::optional<Time> end) override {
    drain_ends.push_back(pool + " " + backend + (end ? " ends" : " lasts"));
  }

  int reloads = 0;
  int upgrades = 0;
  bool busy = false;  // refuses previews and upgrades
  std::vector<Problem> problems;
  std::vector<std::string> weights;
  std::vector<std::string> drain_ends;
  std::vector<std::string> previews;
};

/// A loop that turns on a thread of its own.
struct RunningLoop {
  RunningLoop() : thread([this] { loop.run(); }) {}
  ~RunningLoop() {
    loop.stop();
    thread.join();
  }
  Loop loop;
  std::thread thread;
};

class RunningAdmin : public ::testing::Test {
 protected:
  /// `config`: YAML. `control`: in place of `control_`.
  void start(std::string_view config = two_pools, const AdminLimits& limits = {},
             Control* control = nullptr) {
    LoadResult loaded = read_config(config, "test.yaml", {});
    ASSERT_THAT(loaded.problems, ::testing::IsEmpty());
    auto pool_set = build_pools(loaded.config);
    ASSERT_TRUE(pool_set.ok());
    auto admin_tls = load_admin_tls(loaded.config.admin);
    ASSERT_TRUE(admin_tls.ok()) << admin_tls.error().detail;
    status_.update([&](RuntimeStatus& status) {
      status.version = "1.2.3";
      status.config = std::make_shared<const Config>(loaded.config);
      status.pool_set = *pool_set;
      status.admin_tls = *admin_tls;
      status.ready = true;
    });
    runtime_ = {.status = &status_,
                .metrics_registry = &metrics_registry_,
                .loops = {&worker_.loop},
                .control_loop = &control_loop_.loop,
                .connections = [] { return std::uint64_t{0}; },
                .control = control == nullptr ? &control_ : control};
    auto endpoints = resolve("127.0.0.1", 0);
    auto fd = Listener::bind(endpoints->front());
    ASSERT_TRUE(fd.ok());
    port_ = Listener::local_endpoint(*fd).port();
    auto server = AdminServer::start(*fd, runtime_, limits);
    ASSERT_TRUE(server.ok());
    server_ = std::move(*server);
  }

  std::string host() const { return "127.0.0.1:" + std::to_string(port_); }
  std::string request(std::string_view method, std::string_view target,
                      std::string_view fields = "", std::string_view body = "") const {
    std::string text = std::string(method) + " " + std::string(target) +
                       " HTTP/1.1\r\nhost: " + host() + "\r\n" + std::string(fields);
    if (method == "POST") text += "content-length: " + std::to_string(body.size()) + "\r\n";
    return text + "\r\n" + std::string(body);
  }
  RawReply exchange(const std::string& bytes, bool head_only = false) const {
    RawClient client(port_);
    client.send(bytes);
    return client.read_reply(head_only);
  }
  RawReply get(std::string_view target, std::string_view fields = "") const {
    return exchange(request("GET", target, fields));
  }
  RawReply post(std::string_view target, std::string_view body = "") const {
    return exchange(request("POST", target, "", body));
  }
  const Backend& backend(std::size_t pool, std::size_t number) const {
    return *status_.snapshot()->pool_set->pools()[pool].state->backends()[number];
  }

  RunningLoop control_loop_;
  RunningLoop worker_;
  MetricsRegistry metrics_registry_{1};
  RecordingControl control_;
  RuntimeStatusPublisher status_{RuntimeStatus{}};
  RuntimeAccess runtime_;
  std::uint16_t port_ = 0;
  std::unique_ptr<AdminServer> server_;
};

}  // namespace evenkeel::testing
