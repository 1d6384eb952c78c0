// What the admin listener does with clients that are slow, greedy or hostile.
#include <sys/resource.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "admin/running_admin.h"
#include "sanitizers.h"

namespace evenkeel::testing {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

class AdminListener : public RunningAdmin {};

/// Limits whose ends a test can wait for.
AdminLimits impatient() {
  return {.head = milliseconds(100),
          .body = milliseconds(100),
          .idle = milliseconds(100),
          .close = milliseconds(100)};
}

std::string address_number(int number) {
  return "\"10." + std::to_string(number / 65536) + "." + std::to_string(number / 256 % 256) + "." +
         std::to_string(number % 256) + ":8000\"";
}

TEST_F(AdminListener, AnswersRequestsThatWereSentTogetherInTheirOrder) {
  start();
  RawClient client(port_);
  client.send(request("GET", "/readyz") + request("HEAD", "/readyz") +
              request("GET", "/api/v1/pools") + request("GET", "/none"));

  EXPECT_EQ(client.read_reply().body, "ready\n");
  const RawReply head = client.read_reply(true);
  EXPECT_EQ(head.status, 200);
  EXPECT_EQ(head.fields.at("content-length"), "6");
  EXPECT_THAT(client.read_reply().body, HasSubstr(R"("name":"chat")"));
  EXPECT_EQ(client.read_reply().status, 404);
}

TEST_F(AdminListener, KeepsConnectionsUnlessTheClientSaysOtherwise) {
  start();
  RawClient closes(port_);
  closes.send(request("GET", "/readyz", "connection: close\r\n"));
  EXPECT_EQ(closes.read_reply().fields.at("connection"), "close");
  EXPECT_TRUE(closes.ends());

  RawClient old(port_);
  old.send("GET /readyz HTTP/1.0\r\n\r\n");
  EXPECT_EQ(old.read_reply().status, 200);
  EXPECT_TRUE(old.ends());
}

TEST_F(AdminListener, RefusesAHeadThatIsTooLarge) {
  start();
  RawClient client(port_);
  client.send(request("GET", "/readyz", "x: " + std::string(20'000, 'x') + "\r\n"));

  const RawReply reply = client.read_reply();
  EXPECT_EQ(reply.status, 431);
  EXPECT_THAT(reply.body, HasSubstr("16384 bytes"));
  EXPECT_TRUE(client.ends());
}

TEST_F(AdminListener, RefusesABodyThatIsTooLarge) {
  start();
  RawClient announced(port_);
  announced.send(
      "POST /api/v1/reload HTTP/1.1\r\nhost: localhost\r\ncontent-length: 2000000\r\n\r\n");
  EXPECT_EQ(announced.read_reply().status, 413);
  EXPECT_TRUE(announced.ends());

  RawClient chunked(port_);
  std::string body =
      "POST /api/v1/reload HTTP/1.1\r\nhost: localhost\r\n"
      "transfer-encoding: chunked\r\n\r\n";
  const std::string chunk = "10000\r\n" + std::string(0x10000, 'x') + "\r\n";
  for (int i = 0; i < 20; ++i) body += chunk;
  chunked.send(body);
  const RawReply reply = chunked.read_reply();
  EXPECT_EQ(reply.status, 413);
  EXPECT_THAT(reply.body, HasSubstr("1048576 bytes"));
  EXPECT_EQ(control_.reloads, 0);
}

TEST_F(AdminListener, BoundsChunkExtensionsAndTrailers) {
  start();
  const std::string head =
      "POST /api/v1/reload HTTP/1.1\r\nhost: localhost\r\n"
      "transfer-encoding: chunked\r\n\r\n";
  RawClient extension(port_);
  extension.send(head + "1;" + std::string(100'000, 'x'));
  EXPECT_EQ(extension.read_reply().status, 400);

  RawClient trailers(port_);
  trailers.send(head + "0\r\nx: " + std::string(100'000, 'x'));
  EXPECT_GE(trailers.read_reply().status, 400);
  EXPECT_EQ(control_.reloads, 0);
}

TEST_F(AdminListener, RefusesWhatCanBeReadInTwoWays) {
  start();
  const std::vector<std::string> heads = {
      "GET /readyz HTTP/1.1\r\nhost: a\r\nhost: b\r\n\r\n",
      "GET /readyz HTTP/1.1\r\n\r\n",
      "GET http://localhost/readyz HTTP/1.1\r\nhost: localhost\r\n\r\n",
      "POST /api/v1/reload HTTP/1.1\r\nhost: a\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nx",
      "POST /api/v1/reload HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n"
      "content-length: 1\r\n\r\n0\r\n\r\n",
      "POST /api/v1/reload HTTP/1.1\r\nhost: a\r\ntransfer-encoding: xchunked\r\n"
      "content-length: 1\r\n\r\nx",
      "POST /api/v1/reload HTTP/1.0\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
  };
  for (const std::string& head : heads) {
    RawClient client(port_);
    client.send(head);
    EXPECT_GE(client.read_reply().status, 400) << head;
    EXPECT_TRUE(client.ends()) << head;
  }
  EXPECT_EQ(control_.reloads, 0);
}

TEST_F(AdminListener, SurvivesAnyBytes) {
  start();
  std::string bytes;
  unsigned state = 1;
  for (int round = 0; round < 200; ++round) {
    bytes.assign(round % 2 == 0 ? "" : "GET /readyz HTTP/1.1\r\nhost: a\r\n");
    for (int i = 0; i < 500; ++i) {
      state = state * 1664525 + 1013904223;
      bytes += static_cast<char>(state >> 24);
    }
    RawClient client(port_);
    client.send(bytes + "\r\n\r\n");
  }
  EXPECT_EQ(get("/readyz").status, 200);
}

TEST_F(AdminListener, AsksForABodyThatTheClientHoldsBack) {
  start();
  RawClient client(port_);
  client.send(
      "POST /api/v1/check HTTP/1.1\r\nhost: localhost\r\nexpect: 100-continue\r\n"
      "content-length: 4\r\n\r\n");
  EXPECT_EQ(client.read_interim(), "HTTP/1.1 100 Continue");
  client.send("text");
  EXPECT_EQ(client.read_reply().status, 200);
  EXPECT_EQ(control_.previews.at(0), "text");
}

TEST_F(AdminListener, ClosesClientsThatSendTooSlowly) {
  start(two_pools, impatient());
  RawClient idle(port_);
  RawClient slow_head(port_);
  slow_head.send("GET /readyz HTT");
  RawClient slow_body(port_);
  slow_body.send("POST /api/v1/reload HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9\r\n\r\nxx");

  EXPECT_TRUE(idle.ends());
  EXPECT_TRUE(slow_head.ends());
  EXPECT_TRUE(slow_body.ends());
  EXPECT_EQ(control_.reloads, 0);
}

TEST_F(AdminListener, StalledConnectionsMakeRoomForAProbe) {
  start();
  std::vector<RawClient> stalled;
  for (int i = 0; i < 300; ++i) {
    RawClient& client = stalled.emplace_back(port_);
    ASSERT_TRUE(client.connected());
    if (i % 2 == 0) client.send("GET /readyz HTTP/1.1\r\nhost:");
  }
  const Instant began = Clock::now();

  EXPECT_EQ(get("/readyz").status, 200);

  EXPECT_LT(Clock::now() - began, std::chrono::seconds(1));
  EXPECT_TRUE(stalled.front().ends());
}

TEST_F(AdminListener, AConnectionInUseOutlivesStalledOnes) {
  start(two_pools, {.connections = 8});
  RawClient scraper(port_);
  std::vector<RawClient> stalled;
  for (int i = 0; i < 20; ++i) {
    stalled.emplace_back(port_).send("GET /readyz HTTP/1.1\r\nhost:");
    scraper.send(request("GET", "/readyz"));
    EXPECT_EQ(scraper.read_reply().status, 200);
  }
}

/// Reloads that end when the test says so.
struct SlowControl final : Control {
  explicit SlowControl(Loop& own) : loop(own), released(own) {}
  Task<std::vector<Problem>> reload() override {
    begun = true;
    co_await released.wait();
    co_return std::vector<Problem>();
  }
  Task<Result<Done>> upgrade() override { return Result<Done>(Done{}); }
  Task<Result<ReloadPreview>> preview(PreviewRequest asked) override {
    begun = true;
    while (!asked.left.stop_requested()) co_await loop.sleep_for(milliseconds(1));
    dropped = true;
    co_return ReloadPreview{};
  }
  Task<Result<Done>> set_weight(std::string, std::string, std::uint32_t) override {
    return Result<Done>(Done{});
  }
  void set_drain_end(const std::string&, const std::string&, std::optional<Time>) override {}
  Loop& loop;
  Signal released;
  std::atomic<bool> begun{false};
  std::atomic<bool> dropped{false};  // a preview has ended since its client has left
};

TEST_F(AdminListener, AConnectionThatWaitsForAReplyOutlivesIdleOnes) {
  SlowControl control(control_loop_.loop);
  start(two_pools, {.connections = 4}, &control);
  RawClient operating(port_);
  operating.send(request("POST", "/api/v1/reload"));
  while (!control.begun) std::this_thread::yield();
  std::vector<RawClient> idle;
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(idle.emplace_back(port_).send(request("GET", "/readyz")), true);
    EXPECT_EQ(idle.back().read_reply().status, 200);
  }

  control_loop_.loop.post([&] { control.released.raise(); });

  EXPECT_EQ(operating.read_reply().status, 200);
}

TEST_F(AdminListener, ACheckEndsWhenItsClientHasLeft) {
  SlowControl control(control_loop_.loop);
  start(two_pools, {}, &control);
  {
    RawClient client(port_);
    client.send(request("POST", "/api/v1/check", "", "pools: []"));
    while (!control.begun) std::this_thread::yield();
    EXPECT_FALSE(control.dropped);
  }

  const Instant deadline = Clock::now() + std::chrono::seconds(20);
  while (!control.dropped && Clock::now() < deadline) std::this_thread::yield();

  EXPECT_TRUE(control.dropped);
}

TEST_F(AdminListener, TheTextOfAReplyCountsOnce) {
  std::string config = "pools: [{name: chat, backends: [";
  for (int i = 0; i < 3'000; ++i) config += address_number(i) + ",";
  start(config + "]}]\n");
  const std::size_t page = get("/metrics").body.size();
  server_.reset();
  start(config + "]}]\n", {.unsent_bytes = page + page / 2});
  constexpr int small_buffer = 4096;

  // Both get the same page, which is kept for a quarter of a second: on a busy machine not at once.
  bool whole = false;
  for (int attempt = 0; attempt < 5 && !whole; ++attempt) {
    RawClient slow(port_, small_buffer);
    slow.send(request("GET", "/metrics", "connection: close\r\n"));
    EXPECT_EQ(slow.read_reply_head(), 200);
    EXPECT_EQ(get("/metrics").status, 200);
    EXPECT_TRUE(slow.ends());
    whole = slow.complete();
  }
  EXPECT_TRUE(whole) << "no connection had to be closed";
}

/// Leaves the process no descriptor but those that it gives back.
class ExhaustedDescriptors {
 public:
  ExhaustedDescriptors() {
    getrlimit(RLIMIT_NOFILE, &before_);
    const int highest = dup(0);
    close(highest);
    const rlimit few{static_cast<rlim_t>(highest) + 20, before_.rlim_max};
    setrlimit(RLIMIT_NOFILE, &few);
    for (int fd = dup(0); fd >= 0; fd = dup(0)) held_.push_back(fd);
  }
  ~ExhaustedDescriptors() {
    setrlimit(RLIMIT_NOFILE, &before_);
    for (const int fd : held_) close(fd);
  }
  void give_one_back() {
    close(held_.back());
    held_.pop_back();
  }

 private:
  rlimit before_{};
  std::vector<int> held_;
};

TEST_F(AdminListener, WithoutDescriptorsAnIdleConnectionMakesRoom) {
#ifdef EVENKEEL_SANITIZED
  GTEST_SKIP() << "a sanitizer needs descriptors of its own";
#endif
  start();
  RawClient idle(port_);
  idle.send(request("GET", "/readyz"));
  EXPECT_EQ(idle.read_reply().status, 200);
  ExhaustedDescriptors exhausted;
  exhausted.give_one_back();

  RawClient probe(port_);  // has the last descriptor: there is none to accept it with
  ASSERT_TRUE(probe.connected());
  probe.send(request("GET", "/readyz"));

  EXPECT_EQ(probe.read_reply().status, 200);
  EXPECT_TRUE(idle.ends());
}

TEST_F(AdminListener, SlowReadersOfLargeRepliesMakeRoomForOthers) {
  std::string config = "pools: [{name: chat, backends: [";
  for (int i = 0; i < 12'000; ++i) {
    config += address_number(i) + ",";
  }
  start(config + "]}]\n", {.unsent_bytes = 12 * 1024 * 1024});
  constexpr int small_buffer = 4096;
  RawClient first(port_, small_buffer);
  first.send(request("GET", "/api/v1/backends"));
  EXPECT_EQ(first.read_reply_head(), 200);
  RawClient second(port_, small_buffer);
  second.send(request("GET", "/api/v1/backends"));
  EXPECT_EQ(second.read_reply_head(), 200);

  EXPECT_EQ(get("/api/v1/backends").status, 200);

  EXPECT_TRUE(first.ends());
  EXPECT_FALSE(first.complete()) << "the first one was cut";
}

TEST_F(AdminListener, ResumesLiveEventsAfterTheLastOneThatAClientHas) {
  start();
  const auto follow = [this](const std::string& fields) {
    RawClient client(port_);
    client.send(request("GET", "/api/v1/live", fields));
    return client;
  };
  const auto id_of = [](const std::string& event) {
    const std::size_t at = event.rfind("id: ") + 4;
    return event.substr(at, event.find('\n', at) - at);
  };
  RawClient live = follow("");
  const std::string first = live.read_until("\n\n");
  EXPECT_THAT(first, HasSubstr("event: snapshot\n"));
  EXPECT_THAT(first, HasSubstr(R"({"status":{"version":"1.2.3")"));
  EXPECT_THAT(first, HasSubstr(R"("backends":[{"id":"127.0.0.1:8001")"));

  backend(0, 0).state().take_out(OutOfRotation::draining);
  const std::string second = live.read_until(R"("state":"draining")");
  EXPECT_THAT(second, HasSubstr("event: diff\n"));
  EXPECT_THAT(second, HasSubstr(R"({"pool":"chat","id":"127.0.0.1:8001","state":"draining")"));

  EXPECT_THAT(follow("last-event-id: " + id_of(first) + "\r\n").read_until("\n\n"),
              HasSubstr("id: " + id_of(second) + "\nevent: diff\n"));
  EXPECT_THAT(follow("last-event-id: 0-1\r\n").read_until("\n\n"), HasSubstr("event: snapshot\n"));
}

TEST_F(AdminListener, EndsWithClientsConnected) {
  start();
  RawClient idle(port_);
  RawClient stalled(port_);
  stalled.send("GET /readyz HTTP/1.1\r\nhost:");
  RawClient live(port_);
  live.send(request("GET", "/api/v1/live"));
  EXPECT_EQ(live.read_reply_head(), 200);

  server_.reset();

  EXPECT_TRUE(idle.ends());
  EXPECT_TRUE(stalled.ends());
  EXPECT_TRUE(live.ends());
}

}  // namespace
}  // namespace evenkeel::testing
