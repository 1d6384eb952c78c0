#include "evenkeel/load/load.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <map>
#include <thread>

#include "evenkeel/base/termination_signals.h"
#include "evenkeel/load/run.h"
#include "evenkeel/net/listener.h"
#include "evenkeel/wire/frontend.h"

namespace evenkeel {
namespace {

using std::chrono::milliseconds;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;
using testing::StartsWith;
using testing::UnorderedElementsAre;

constexpr int patience_ms = 30'000;

std::string token(const std::string& text) {
  return "data: {\"choices\":[{\"delta\":{\"content\":\"" + text + "\"}}]}\n\n";
}

const std::string role =
    "data: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n";
const std::string three_tokens = role + token("a") + token("b") + token("c");
const std::string done = "data: [DONE]\n\n";

/// Yields a text, then fails like a server with a dying engine.
class BrokenBody : public Body {
 public:
  explicit BrokenBody(std::string text) : text_(std::move(text)) {}
  Task<Result<Chunk>> read() override {
    if (std::exchange(told_, true)) {
      return Result<Chunk>(Error{.fault = Fault::backend_closed, .side = Side::backend});
    }
    return Result<Chunk>(Chunk{.bytes = text_});
  }

 private:
  std::string text_;
  bool told_ = false;
};

/// An HTTP server on a thread of its own that runs the test's handler.
class Server : FrontendCallbacks, Handler {
 public:
  /// Runs on the server's thread, with the whole request body; true: never answer.
  using Answer = std::function<bool(const Request&, const std::string& body, Response&)>;

  explicit Server(Answer answer, ListenerConfig options = {})
      : answer_(std::move(answer)), options_(std::move(options)) {
    auto endpoints = resolve("127.0.0.1", 0);
    auto fd = Listener::bind(endpoints->front());
    endpoint_ = Listener::local_endpoint(*fd);
    listener_.emplace(loop_, *fd, [this](int accepted, const Endpoint& peer) {
      ++connections;
      loop_.spawn(serve_http1(std::make_unique<Socket>(loop_, accepted), peer, options_, *this));
    });
    thread_ = std::thread([this] { loop_.run(); });
  }
  ~Server() override {
    loop_.stop();
    thread_.join();
  }

  std::string url() const { return "http://" + endpoint_.text(); }
  Loop& loop() { return loop_; }
  /// Answers the waiting requests with an empty stream. Thread: the server's.
  void release() {
    for (auto* waiting : waiting_) waiting->raise();
    waiting_.clear();
  }
  std::size_t waiting() const { return waiting_.size(); }

  std::atomic<int> connections{0};
  std::atomic<int> closed_connections{0};

 private:
  std::shared_ptr<Handler> plan() override { return {std::shared_ptr<void>(), this}; }
  void refused(const Refusal&) override {}
  bool draining() const override { return false; }
  IdleList& idle_connections(ClientNumber) override { return idle_connections_; }
  void closed(const ListenerConfig&, ClientNumber) override { ++closed_connections; }

  Task<Result<Response>> handle(Request& request) override {
    std::string body;
    for (bool last = !request.body; !last;) {
      auto chunk = co_await request.body->read();
      if (!chunk) co_return std::move(chunk.error());
      body += chunk->bytes;
      last = chunk->last;
    }
    Response response;
    const bool waits = answer_(request, body, response);
    if (waits) {
      Signal released(loop_);
      waiting_.push_back(&released);
      co_await released.wait();
      response.body = make_body(three_tokens + done);
    }
    co_return response;
  }

  Answer answer_;
  ListenerConfig options_;
  Endpoint endpoint_;
  std::vector<Signal*> waiting_;
  IdleList idle_connections_;
  Loop loop_;  // last: its destructor drops the connections, which use the members above
  std::optional<Listener> listener_;
  std::thread thread_;
};

Server::Answer answers(const std::string& text) {
  return [text](const Request&, const std::string&, Response& response) {
    response.body = make_body(text);
    return false;
  };
}

bool never_answers(const Request&, const std::string&, Response&) { return true; }

LoadOptions streams_to(const Server& server) {
  return {.url = server.url(), .stream = true, .model = "m"};
}

/// Runs a load to its end.
LoadReport report_of(const LoadOptions& options) {
  auto complete = resolve_options(options);
  EXPECT_TRUE(complete);
  auto run = LoadRun::start(*complete);
  EXPECT_TRUE(run) << run.error().detail;
  const int fd = (*run)->done_fd();
  EXPECT_EQ(wait_any_readable({&fd, 1}, Clock::now() + milliseconds(patience_ms)), 0)
      << "the load does not end";
  (*run)->stop();
  (*run)->take_window();
  return (*run)->report();
}

std::map<std::string, std::uint64_t> failures_of(const LoadReport& report) {
  std::map<std::string, std::uint64_t> counts;
  for (const auto& [kind, failure] : report.failures) counts[kind] = failure.count;
  return counts;
}

TEST(ClosedLoop, SendsTheGivenNumberOfRequestsOverOneConnectionPerClient) {
  Server server(answers(three_tokens + done));
  auto options = streams_to(server);
  options.concurrency = 8;
  options.requests = 200;

  const LoadReport report = report_of(options);

  EXPECT_EQ(report.started, 200u);
  EXPECT_EQ(report.succeeded, 200u);
  EXPECT_EQ(report.failed, 0u);
  EXPECT_EQ(report.connections, 8u);
  EXPECT_EQ(report.reused, 192u);
  EXPECT_EQ(server.connections, 8);
}

TEST(ClosedLoop, IsSharedByThreads) {
  Server server(answers(three_tokens + done));
  auto options = streams_to(server);
  options.concurrency = 5;
  options.requests = 3000;  // so many that each thread starts before they are done
  options.threads = 3;

  const LoadReport report = report_of(options);

  EXPECT_EQ(report.succeeded, 3000u);
  EXPECT_EQ(report.connections, 5u);
}

TEST(Load, CountsTheTokensAndTheirTimes) {
  Server server(answers(three_tokens + done));
  auto options = streams_to(server);
  options.concurrency = 2;
  options.requests = 10;
  options.prompt_tokens = {20, 20};

  const LoadReport report = report_of(options);

  EXPECT_EQ(report.output_tokens, 30u);
  EXPECT_EQ(report.prompt_tokens, 200u);
  EXPECT_EQ(report.ttft.count(), 10u);
  EXPECT_EQ(report.tpot.count(), 10u);
  EXPECT_EQ(report.inter_token_latency.count(), 20u);
  EXPECT_EQ(report.e2e_latency.count(), 10u);
  EXPECT_EQ(report.lateness.count(), 0u);
  EXPECT_GT(report.ttft.quantile(0.5), Duration::zero());
  EXPECT_GE(report.e2e_latency.max(), report.ttft.max());
}

TEST(Load, PrefersUsageOverItsOwnCount) {
  const std::string usage =
      "data: {\"choices\":[],\"usage\":{\"completion_tokens\":50,"
      "\"prompt_tokens_details\":{\"cached_tokens\":16}}}\n\n";
  Server server(answers(three_tokens + usage + done));
  auto options = streams_to(server);
  options.requests = 4;

  const LoadReport report = report_of(options);

  EXPECT_EQ(report.output_tokens, 200u);
  EXPECT_EQ(report.cached_tokens, 64u);
}

TEST(Load, CountsWhatMeetsItsTargets) {
  Server server(answers(three_tokens + done));
  auto options = streams_to(server);
  options.requests = 6;

  options.ttft_slo = options.tpot_slo = std::chrono::seconds(20);
  EXPECT_EQ(report_of(options).good, 6u);
  options.ttft_slo = std::chrono::nanoseconds(1);
  EXPECT_EQ(report_of(options).good, 0u);
  options.ttft_slo = {};
  EXPECT_EQ(report_of(options).good, 6u);
  options.tpot_slo = {};
  EXPECT_EQ(report_of(options).good, 0u) << "there are none";

  Server failing(answers(three_tokens));
  options = streams_to(failing);
  options.requests = 2;
  options.ttft_slo = std::chrono::seconds(20);
  EXPECT_EQ(report_of(options).good, 0u);
}

TEST(Load, LogsEachRequest) {
  Server server(answers(three_tokens + done));
  auto options = streams_to(server);
  options.requests = 3;
  options.concurrency = 1;
  options.prompt_tokens = {20, 20};
  EXPECT_EQ(report_of(options).log, "");

  options.log = "requests.jsonl";
  const std::string log = report_of(options).log;

  EXPECT_EQ(std::ranges::count(log, '\n'), 3);
  EXPECT_THAT(log, AllOf(StartsWith("{\"index\":0,\"due_seconds\":"),
                         HasSubstr("\"prompt_tokens\":20,\"cached_tokens\":0,\"output_tokens\":3,"),
                         HasSubstr("\"error\":null}\n{\"index\":1,")));
  Server failing(answers(three_tokens));
  options.url = streams_to(failing).url;
  EXPECT_THAT(report_of(options).log, HasSubstr("\"error\":\"truncated\"}"));
}

TEST(Load, ReadsResponsesThatAreNotStreamed) {
  Server server(answers(R"({"choices":[],"usage":{"completion_tokens":7}})"));
  auto options = streams_to(server);
  options.stream = false;
  options.requests = 6;

  const LoadReport report = report_of(options);

  EXPECT_EQ(report.succeeded, 6u);
  EXPECT_EQ(report.output_tokens, 42u);
  EXPECT_EQ(report.ttft.count(), 0u);
  EXPECT_EQ(report.e2e_latency.count(), 6u);
}

TEST(OpenLoop, NeverWaitsForAResponseAndCountsFromTheDueTime) {
  Server* at = nullptr;
  Server server([&](const Request&, const std::string&, Response&) {
    if (at->waiting() == 49) at->loop().post([&] { at->release(); });
    return true;
  });
  at = &server;
  auto options = streams_to(server);
  options.rate = 500;
  options.requests = 50;

  const LoadReport report = report_of(options);

  // The first was due 98 ms before the last, whose arrival releases them all.
  EXPECT_EQ(report.succeeded, 50u);
  EXPECT_EQ(report.connections, 50u);
  EXPECT_EQ(report.lateness.count(), 50u);
  EXPECT_GE(report.e2e_latency.max(), milliseconds(98));
  EXPECT_GE(report.ttft.max(), milliseconds(98));
}

TEST(OpenLoop, IsSharedByThreads) {
  Server server(answers(three_tokens + done));
  auto options = streams_to(server);
  options.rate = 2000;
  options.poisson = true;
  options.requests = 101;
  options.threads = 3;

  const LoadReport report = report_of(options);

  EXPECT_EQ(report.started, 101u);
  EXPECT_EQ(report.succeeded, 101u);
}

TEST(OpenLoop, StartsNothingAfterItsDuration) {
  Server server(answers(three_tokens + done));
  auto options = streams_to(server);
  options.rate = 1000;
  options.duration = milliseconds(50);

  const LoadReport report = report_of(options);

  EXPECT_EQ(report.succeeded, 50u);
}

TEST(Load, OfATraceSendsItsLengthsAndTenants) {
  std::vector<std::string> bodies;
  Server server([&](const Request&, const std::string& body, Response& response) {
    bodies.push_back(body);
    response.body = make_body(three_tokens + done);
    return false;
  });
  std::string file = testing::TempDir() + "load-XXXXXX";
  close(mkstemp(file.data()));
  std::ofstream(file) << "timestamp_ms,client_id,input_tokens,output_tokens\n"
                         "0,acme,3,11\n40,zeta,5,12\n90000,late,5,13\n";
  auto options = streams_to(server);
  options.trace = file;
  options.trace_speed = 20;
  options.trace_cut = std::chrono::seconds(60);

  const LoadReport report = report_of(options);
  unlink(file.c_str());

  EXPECT_EQ(report.succeeded, 2u);
  EXPECT_EQ(report.prompt_tokens, 8u);
  EXPECT_THAT(bodies, UnorderedElementsAre(
                          AllOf(HasSubstr("\"max_tokens\":11"), HasSubstr("\"user\":\"acme\"")),
                          AllOf(HasSubstr("\"max_tokens\":12"), HasSubstr("\"user\":\"zeta\""))));
}

TEST(Load, SendsItsHeadersAndTheModelThatTheServerLists) {
  std::vector<std::string> seen;
  Server server([&](const Request& request, const std::string& body, Response& response) {
    if (request.path == "/base/v1/models") {
      response.body = make_body(R"({"data":[{"id":"org/model"}]})");
    } else {
      seen = {std::string(request.method), std::string(request.authority),
              std::string(request.path), std::string(request.fields.value("x-tenant").value_or("")),
              body.substr(0, 20)};
      response.body = make_body(three_tokens + done);
    }
    return false;
  });
  auto options = streams_to(server);
  options.url += "/base";
  options.model = "";
  options.requests = 1;
  options.headers = {{"X-Tenant", "acme"}, {"Host", "llm.example"}};

  report_of(options);

  EXPECT_THAT(seen, ElementsAre("POST", "llm.example", "/base/v1/chat/completions", "acme",
                                "{\"model\":\"org/model\""));
}

TEST(Load, CountsAStreamWithoutItsEndAsTruncated) {
  Server server(answers(three_tokens));
  auto options = streams_to(server);
  options.requests = 3;

  const LoadReport report = report_of(options);

  EXPECT_THAT(failures_of(report), ElementsAre(Pair("truncated", 3u)));
  EXPECT_THAT(report.failures.at("truncated").example, HasSubstr("without [DONE], after 3 events"));
  EXPECT_EQ(report.succeeded, 0u);
  EXPECT_EQ(report.failed, 3u);
}

TEST(Load, CountsACutBodyAsTruncated) {
  Server server([](const Request&, const std::string&, Response& response) {
    response.body = std::make_unique<BrokenBody>(three_tokens);
    return false;
  });
  auto options = streams_to(server);
  options.requests = 3;

  EXPECT_THAT(failures_of(report_of(options)), ElementsAre(Pair("truncated", 3u)));
}

TEST(Load, CountsAnErrorInsideAStream) {
  Server server(
      answers(three_tokens + "data: {\"error\":{\"message\":\"out of memory\"}}\n\n" + done));
  auto options = streams_to(server);
  options.requests = 2;

  const LoadReport report = report_of(options);

  EXPECT_THAT(failures_of(report), ElementsAre(Pair("stream_error", 2u)));
  EXPECT_THAT(report.failures.at("stream_error").example, HasSubstr("out of memory"));
}

TEST(Load, CountsStatusesAndReasons) {
  int count = 0;
  Server server([&](const Request&, const std::string&, Response& response) {
    response.status = ++count % 2 == 0 ? 503 : 404;
    if (response.status == 503) response.fields.add("x-evenkeel-reason", "queue_full");
    response.body = make_body("no, \x1b[31m\xff sorry");
    return false;
  });
  auto options = streams_to(server);
  options.concurrency = 1;
  options.requests = 4;

  const LoadReport report = report_of(options);

  EXPECT_THAT(failures_of(report), ElementsAre(Pair("status_404", 2u), Pair("status_503", 2u)));
  EXPECT_THAT(report.reasons, ElementsAre(Pair("queue_full", 2u)));
  EXPECT_EQ(report.failures.at("status_404").example, "no,  [31m  sorry");
  EXPECT_EQ(report.connections, 1u);
}

TEST(Load, CountsResponsesPerBackend) {
  int count = 0;
  Server server([&](const Request&, const std::string&, Response& response) {
    response.fields.add("x-evenkeel-backend", ++count % 4 == 0 ? "b:2" : "a:1");
    response.body = make_body(three_tokens + done);
    return false;
  });
  auto options = streams_to(server);
  options.requests = 20;

  const LoadReport report = report_of(options);

  ASSERT_EQ(report.backends.size(), 2u);
  EXPECT_EQ(report.backends.at("a:1").answered, 15u);
  EXPECT_EQ(report.backends.at("b:2").answered, 5u);
  EXPECT_EQ(report.backends.at("b:2").ttft.count(), 5u);
}

TEST(Load, CountsConnectionsThatAreRefused) {
  std::string url;
  {
    const Server gone(answers(""));
    url = gone.url();
  }
  LoadOptions options{.url = url, .rate = 1000, .requests = 5, .model = "m"};

  const LoadReport report = report_of(options);

  EXPECT_THAT(failures_of(report), ElementsAre(Pair("connect", 5u)));
  EXPECT_THAT(report.failures.at("connect").example, StartsWith("connect_failed: "));
}

TEST(Load, TimesOutOnASilentServer) {
  Server server(never_answers);
  auto options = streams_to(server);
  options.concurrency = 3;
  options.requests = 3;
  options.timeout = milliseconds(60);

  EXPECT_THAT(failures_of(report_of(options)), ElementsAre(Pair("timeout", 3u)));
}

TEST(Load, AbandonsRequestsInFlightAfterTheDrainTime) {
  Server server(never_answers);
  auto options = streams_to(server);
  options.concurrency = 3;
  options.requests = 3;
  options.drain = milliseconds(60);

  const LoadReport report = report_of(options);

  EXPECT_EQ(report.abandoned, 3u);
  EXPECT_EQ(report.failed, 0u);
}

TEST(Load, AbandonsRequestsInFlightOnStop) {
  std::atomic<int> seen{0};
  Server server([&](const Request&, const std::string&, Response&) {
    ++seen;
    return true;
  });
  auto options = streams_to(server);
  options.concurrency = 4;
  auto run = LoadRun::start(*resolve_options(options));
  ASSERT_TRUE(run);
  while (seen < 4) std::this_thread::yield();

  (*run)->stop();

  EXPECT_EQ((*run)->take_window().abandoned, 4u);
  const Instant deadline = Clock::now() + milliseconds(patience_ms);
  while (server.closed_connections < 4 && Clock::now() < deadline) std::this_thread::yield();
  EXPECT_EQ(server.closed_connections, 4) << "the server goes on for unreachable";
}

TEST(Load, ReconnectsWhenTheServerClosedAnIdleConnection) {
  Server server(answers(three_tokens + done), {.timeouts = {.idle = milliseconds(1)}});
  auto options = streams_to(server);
  options.rate = 10;
  options.requests = 4;

  const LoadReport report = report_of(options);

  EXPECT_EQ(report.succeeded, 4u);
  EXPECT_EQ(report.connections, 4u);
}

TEST(RunLoad, PrintsJsonAndSucceedsWhenNoRequestFailed) {
  Server server(answers(three_tokens + done));
  auto options = streams_to(server);
  options.requests = 5;
  options.json = true;

  testing::internal::CaptureStdout();
  const int code = run_load(options);
  const std::string out = testing::internal::GetCapturedStdout();

  EXPECT_EQ(code, 0);
  EXPECT_THAT(out, AllOf(StartsWith("{\"url\":\"" + server.url() + "\",\"loop\":\"closed\""),
                         HasSubstr("\"requests\":{\"started\":5,\"succeeded\":5,\"failed\":0"),
                         HasSubstr("\"late_starts\":null"), HasSubstr("\"errors\":{}")));
  EXPECT_THAT(out, AllOf(HasSubstr("\"ttft_seconds\":{\"count\":5,"), HasSubstr("\"p99\":"),
                         HasSubstr("\"gap_seconds\":{\"count\":10,")));
}

TEST(RunLoad, PrintsATableAndFailsWhenARequestFailed) {
  Server server(answers(three_tokens));
  auto options = streams_to(server);
  options.requests = 5;

  testing::internal::CaptureStdout();
  const int code = run_load(options);
  const std::string out = testing::internal::GetCapturedStdout();

  EXPECT_EQ(code, 1);
  EXPECT_THAT(out, AllOf(HasSubstr("5 started, 0 succeeded, 5 failed"), HasSubstr("truncated")));
}

TEST(RunLoad, ReturnsTheExitCodeOfTheError) {
  testing::internal::CaptureStderr();
  const int contradiction = run_load({.url = "http://127.0.0.1:1", .rate = 1, .concurrency = 1});
  const int bad_url = run_load({.url = "https://127.0.0.1"});
  const int no_trace = run_load({.url = "http://127.0.0.1:1", .trace = "/nowhere/at-all"});
  const std::string said = testing::internal::GetCapturedStderr();

  EXPECT_EQ(contradiction, 2);
  EXPECT_EQ(bad_url, 1);
  EXPECT_EQ(no_trace, 1);
  EXPECT_THAT(said, HasSubstr("/nowhere/at-all: No such file"));
}

}  // namespace
}  // namespace evenkeel
