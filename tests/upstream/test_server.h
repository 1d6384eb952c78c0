// Servers on a test's loop: one that answers from a table, one that sends raw bytes.
#pragma once

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "evenkeel/base/loop.h"
#include "evenkeel/net/listener.h"
#include "evenkeel/net/socket.h"
#include "evenkeel/upstream/monitor_spec.h"
#include "evenkeel/wire/frontend.h"

namespace evenkeel {

/// A descriptor that listens on a free loopback port.
inline int listening_fd() {
  auto endpoints = resolve("127.0.0.1", 0);
  auto fd = Listener::bind(endpoints->front());
  EXPECT_TRUE(fd.ok());
  return *fd;
}

/// An address without a listener.
inline Endpoint closed_endpoint() {
  const int fd = listening_fd();
  const Endpoint endpoint = Listener::local_endpoint(fd);
  close(fd);
  return endpoint;
}

/// The kernel completes connections, but nothing ever reads from them.
class UnresponsiveServer {
 public:
  UnresponsiveServer() : fd_(listening_fd()) {}
  UnresponsiveServer(const UnresponsiveServer&) = delete;
  ~UnresponsiveServer() { close(fd_); }
  Endpoint endpoint() const { return Listener::local_endpoint(fd_); }

 private:
  int fd_;
};

/// Answers by path: 404 if the path is not in the table, and never if its entry has no body.
class TestServer final : public FrontendCallbacks, public Handler {
 public:
  struct Answer {
    int status = 200;
    std::optional<std::string> body;
    std::string server = {};
    Duration delay = {};
    std::string location = {};
  };
  using Answers = std::map<std::string, Answer, std::less<>>;

  TestServer(Loop& loop, Answers answers) : loop_(loop), answers_(std::move(answers)) {
    open(listening_fd());
  }

  const Endpoint& endpoint() const { return endpoint_; }
  /// "GET /path", in the order of arrival.
  const std::vector<std::string>& requests() const { return requests_; }
  const std::string& last_authority() const { return last_authority_; }
  const std::string& last_authorization() const { return last_authorization_; }
  std::size_t connections() const { return connections_.size(); }
  std::size_t max_concurrent() const { return max_concurrent_; }
  /// Applies from now on.
  void set_answer(std::string path, Answer answer) {
    answers_[std::move(path)] = std::move(answer);
  }
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
    requests_.push_back(std::string(request.method) + " " + std::string(request.path));
    last_authority_ = request.authority;
    last_authorization_ = request.fields.value(FieldId::authorization).value_or("");
    const auto found = answers_.find(request.path);
    max_concurrent_ = std::max(max_concurrent_, ++concurrent_);
    const AtItsEnd decrement{concurrent_};
    if (found != answers_.end() && found->second.delay > Duration::zero()) {
      co_await loop_.sleep_for(found->second.delay);
    }
    Response response;
    response.status = 404;
    if (found != answers_.end()) {
      if (!found->second.body) {
        Signal never_raised(loop_);
        co_await never_raised.wait();
      }
      response.status = found->second.status;
      if (!found->second.server.empty()) response.fields.add("server", found->second.server);
      const std::string& location = found->second.location;
      if (!location.empty()) response.fields.add("location", response.fields.keep(location));
      response.body = make_body(*found->second.body);
    }
    co_return response;
  }

  struct AtItsEnd {
    std::size_t& count;
    ~AtItsEnd() { --count; }
  };

  Loop& loop_;
  Answers answers_;
  ListenerConfig options_;
  Endpoint endpoint_;
  std::vector<std::string> requests_;
  std::string last_authority_;
  std::string last_authorization_;
  std::size_t concurrent_ = 0;
  std::size_t max_concurrent_ = 0;
  IdleList idle_;
  std::optional<Listener> listener_;
  std::vector<Task<void>> connections_;
};

/// Sends some bytes on every connection and then, if `drips`, one more byte at a time without end.
class RawServer {
 public:
  RawServer(Loop& loop, std::string bytes, bool drips = false)
      : loop_(loop), bytes_(std::move(bytes)), drips_(drips) {
    const int fd = listening_fd();
    endpoint_ = Listener::local_endpoint(fd);
    listener_.emplace(loop_, fd, [this](int accepted, const Endpoint&) {
      connections_.push_back(speak(std::make_unique<Socket>(loop_, accepted)));
    });
  }

  const Endpoint& endpoint() const { return endpoint_; }

 private:
  Task<void> speak(std::unique_ptr<Socket> socket) {
    socket->write_now(bytes_);
    while (drips_) {
      co_await loop_.sleep_for(std::chrono::milliseconds(10));
      socket->write_now("x");
    }
    Signal never_raised(loop_);
    co_await never_raised.wait();
  }

  Loop& loop_;
  std::string bytes_;
  bool drips_;
  Endpoint endpoint_;
  std::optional<Listener> listener_;
  std::vector<Task<void>> connections_;
};

}  // namespace evenkeel
