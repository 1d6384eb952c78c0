#include "cli/top_source.h"

#include <chrono>
#include <string>
#include <thread>

#include "admin/running_admin.h"

namespace evenkeel::testing {
namespace {

using namespace std::chrono_literals;

class FollowingADaemon : public RunningAdmin {
 protected:
  static std::unique_ptr<AdminClient> open(const std::string& address) {
    auto client = AdminClient::open({.address = address});
    EXPECT_TRUE(client.ok());
    return std::move(*client);
  }
  /// Nothing: there is none in time, or an error.
  static std::optional<TopSnapshot> wait_for_snapshot(TopSource& source) {
    const Instant deadline = Clock::now() + 10s;
    while (Clock::now() < deadline) {
      auto snapshot = source.next(100ms);
      if (!snapshot) return std::nullopt;
      if (*snapshot) return std::move(**snapshot);
    }
    return std::nullopt;
  }
};

TEST_F(FollowingADaemon, FetchesTheDocumentsOfADaemon) {
  start();
  const auto client = open(host());

  const auto snapshot = fetch_snapshot(*client);

  ASSERT_TRUE(snapshot.ok());
  EXPECT_EQ(snapshot->status["version"].text(), "1.2.3");
  EXPECT_EQ(snapshot->pools.items().size(), 2u);
  EXPECT_EQ(snapshot->backends.items().size(), 4u);
}

TEST_F(FollowingADaemon, FollowsLiveEvents) {
  start();
  const auto client = open(host());
  TopSource source(*client);

  const auto first = wait_for_snapshot(source);
  ASSERT_TRUE(first);
  EXPECT_EQ(first->pools.items().size(), 2u);
  status_.update([](RuntimeStatus& status) { status.version = "next"; });

  std::string version;
  for (int i = 0; i < 10 && version != "next"; ++i) {
    const auto later = wait_for_snapshot(source);
    ASSERT_TRUE(later);
    EXPECT_EQ(later->backends.items().size(), 4u) << "a difference is applied to the whole";
    version = later->status["version"].text();
  }
  EXPECT_EQ(version, "next");
}

TEST_F(FollowingADaemon, ReportsThatADaemonHasGoneAndFindsItAgain) {
  start();
  const auto client = open(host());
  TopSource source(*client);
  ASSERT_TRUE(wait_for_snapshot(source));

  server_.reset();

  bool failed = false;
  for (int i = 0; i < 50 && !failed; ++i) failed = !source.next(100ms).ok();
  EXPECT_TRUE(failed);
}

/// Answers requests for the documents of a daemon without live events.
class OldDaemon {
 public:
  OldDaemon()
      : fd_(*Listener::bind(resolve("127.0.0.1", 0)->front())),
        address_(Listener::local_endpoint(fd_).text()),
        thread_([this] { serve(); }) {}
  ~OldDaemon() {
    stopping_ = true;
    thread_.join();
    close(fd_);
  }
  const std::string& address() const { return address_; }

 private:
  void serve() const {
    while (!stopping_) {
      pollfd waiting{fd_, POLLIN, 0};
      if (poll(&waiting, 1, 50) != 1) continue;
      const int client = accept(fd_, nullptr, nullptr);
      char request[4096] = {};
      (void)!recv(client, request, sizeof(request) - 1, 0);
      const bool live = std::string_view(request).starts_with("GET /api/v1/live");
      const bool status = std::string_view(request).starts_with("GET /api/v1/status");
      const std::string body = live     ? R"({"error":"no such endpoint"})"
                               : status ? R"({"version":"0.1"})"
                                        : "[]";
      const std::string reply = std::string("HTTP/1.1 ") + (live ? "404 Not Found" : "200 OK") +
                                "\r\ncontent-length: " + std::to_string(body.size()) +
                                "\r\nconnection: close\r\n\r\n" + body;
      (void)!send(client, reply.data(), reply.size(), MSG_NOSIGNAL);
      close(client);
    }
  }

  int fd_;
  std::string address_;
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

TEST_F(FollowingADaemon, FetchesDocumentsWhereThereAreNoLiveEvents) {
  const OldDaemon daemon;
  const auto client = open(daemon.address());
  TopSource source(*client);

  for (int i = 0; i < 2; ++i) {
    const auto snapshot = wait_for_snapshot(source);
    ASSERT_TRUE(snapshot);
    EXPECT_EQ(snapshot->status["version"].text(), "0.1");
  }
}

}  // namespace
}  // namespace evenkeel::testing
