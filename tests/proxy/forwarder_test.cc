#include "evenkeel/proxy/forwarder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "evenkeel/filter/held_bodies.h"
#include "proxy/chain.h"
#include "wire/http2_server_end.h"
#include "wire/scripted_body.h"

namespace evenkeel {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

/// A forwarder with scripted servers behind it.
class ForwarderTest : public ::testing::Test {
 protected:
  explicit ForwarderTest(std::size_t count = 2, BackendProtocol protocol = BackendProtocol::http1) {
    LinkPoolOptions options;
    options.protocol = protocol;
    for (std::size_t i = 0; i < count; ++i) servers.emplace_back(loop);
    PoolSpec spec;
    spec.config.name = "pool";
    spec.config.picker.name = "round-robin";
    for (const ScriptedServer& server : servers) {
      const std::string address = to_string(server.address());
      spec.backends.push_back({.id = address, .address = address});
    }
    state = PoolState::build(std::move(spec));
    std::unordered_map<const evenkeel::Backend*, BackendAccess> backends;
    for (std::size_t i = 0; i < count; ++i) {
      const Address address = servers[i].address();
      BackendMetrics& backend_metrics = worker_metrics().backend(static_cast<std::uint32_t>(i));
      backends[state->backends()[i].get()] = {
          std::make_shared<LinkPool>(loop, *resolve(address.host, address.port), options,
                                     backend_metrics),
          &backend_metrics,
          {}};
    }
    forwarder =
        std::make_unique<Forwarder>(loop, state, 1, std::move(backends), worker_metrics(),
                                    ForwarderOptions{.pool_index = 1, .held_bodies = &held_bodies});
  }

  WorkerMetrics& worker_metrics() { return metrics.worker_metrics(0); }

  /// The result of a request; `play` runs the servers meanwhile.
  template <class Play>
  Result<Response> response_to(Request& request, Play play) {
    Task<Result<Response>> task = forwarder->handle(request);
    play();
    EXPECT_TRUE(eventually(loop, [&] { return task.ready(); }));
    return task.take();
  }
  Request get() {
    return {.method = "GET",
            .authority = "a",
            .path = "/",
            .info = {.timings = {.started = loop.now()}}};
  }
  /// The server that has a connection; waits for one.
  ScriptedServer& connected() {
    const auto any = [this] {
      return std::find_if(servers.begin(), servers.end(),
                          [](const ScriptedServer& each) { return each.connections() > 0; });
    };
    EXPECT_TRUE(eventually(loop, [&] { return any() != servers.end(); }));
    return *any();
  }
  static std::vector<std::pair<std::string, std::optional<Fault>>> attempts_of(
      const Request& request) {
    std::vector<std::pair<std::string, std::optional<Fault>>> attempts;
    for (const AttemptRecord& each : request.info.outcome.attempts) {
      attempts.emplace_back(each.backend, each.fault);
    }
    return attempts;
  }
  std::string address_of(const ScriptedServer& server) { return to_string(server.address()); }

  Loop loop;
  std::deque<ScriptedServer> servers;
  MetricsRegistry metrics{1};
  HeldBodies held_bodies{loop, metrics.worker_metrics(0).replay(), nullptr};
  std::shared_ptr<PoolState> state;
  std::unique_ptr<Forwarder> forwarder;
};

constexpr const char* ok = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";

TEST_F(ForwarderTest, RecordsTheAttemptOfARequestThatIsAnswered) {
  Request request = get();

  auto response = response_to(request, [&] {
    connected().connection(0).read_head();
    connected().connection(0).send(ok);
  });

  ASSERT_TRUE(response);
  EXPECT_EQ(response->status, 200);
  EXPECT_THAT(attempts_of(request), ElementsAre(Pair(address_of(connected()), std::nullopt)));
  EXPECT_EQ(request.info.outcome.backend, address_of(connected()));
  EXPECT_EQ(request.info.timings.retried, Duration{});
  response->body.reset();
}

TEST_F(ForwarderTest, TriesEveryBackendThatCannotBeConnectedOnce) {
  for (ScriptedServer& server : servers) server.stop_listening();
  Request request = get();

  auto response = response_to(request, [] {});

  ASSERT_FALSE(response);
  EXPECT_EQ(response.error().fault, Fault::connect_failed);
  EXPECT_THAT(attempts_of(request),
              ::testing::UnorderedElementsAre(Pair(address_of(servers[0]), Fault::connect_failed),
                                              Pair(address_of(servers[1]), Fault::connect_failed)));
  EXPECT_EQ(state->in_flight(), 0);
  EXPECT_EQ(worker_metrics().pool(1).retries.value(Fault::connect_failed), 1);
}

TEST_F(ForwarderTest, SendsNoGenerationTwiceThatABackendMayHaveProcessed) {
  Request request = get();
  request.method = "POST";

  auto response = response_to(request, [&] {
    connected().connection(0).read_head();
    connected().connection(0).close();
  });

  ASSERT_FALSE(response);
  EXPECT_EQ(response.error().fault, Fault::backend_closed);
  EXPECT_THAT(attempts_of(request),
              ElementsAre(Pair(address_of(connected()), Fault::backend_closed)));
  EXPECT_NE(request.info.timings.head_sent, Instant{});
  EXPECT_EQ(state->in_flight(), 0);
}

TEST_F(ForwarderTest, SendsAPausedUploadAgainThatItsBackendHasEnded) {
  auto feed = std::make_shared<BodyFeed>(loop);
  feed->push("x");
  Request request = get();
  request.method = "PUT";
  request.body = std::make_unique<ScriptedBody>(feed);
  std::size_t first = 0;

  auto response = response_to(request, [&] {
    ScriptedServer& tired = connected();
    first = &tired == &servers[0] ? 0 : 1;
    tired.connection(0).read_to("x\r\n");
    EXPECT_FALSE(eventually(loop, [] { return false; }, std::chrono::milliseconds(150)));
    tired.connection(0).close();
    Peer& other = servers[1 - first].connection(0);
    other.read_to("x\r\n");
    feed->end();
    other.read_to("0\r\n\r\n");
    other.send(ok);
  });

  ASSERT_TRUE(response);
  EXPECT_THAT(attempts_of(request),
              ElementsAre(Pair(address_of(servers[first]), Fault::backend_closed),
                          Pair(address_of(servers[1 - first]), std::nullopt)));
  const SharedBackend& shared = state->backends()[first]->shared();
  EXPECT_TRUE(shared.state.serving());
  EXPECT_EQ(shared.stats.errors_total(), 0u);
  response->body.reset();
}

TEST_F(ForwarderTest, HoldsTheLeaseUntilTheBodyIsDropped) {
  Request request = get();
  auto response = response_to(request, [&] {
    connected().connection(0).read_head();
    connected().connection(0).send(ok);
  });
  ASSERT_TRUE(response);
  EXPECT_EQ(state->in_flight(), 1);

  response->body.reset();

  EXPECT_EQ(state->in_flight(), 0);
}

// ---- what a connection says of a backend --------------------------------------------------------

class ConnectionTest : public ForwarderTest {
 protected:
  ConnectionTest() : ForwarderTest(1) {}

  /// A request over a new connection, which is kept.
  void make_connection() {
    Request request = get();
    auto response = response_to(request, [&] {
      servers[0].connection(0).read_head();
      servers[0].connection(0).send(ok);
    });
    ASSERT_TRUE(response);
    response->body.reset();
  }
  /// Five failed requests, and a connection that is refused.
  void fail_and_refuse() {
    for (int i = 0; i < 5; ++i) {
      backend().record_outcome({.outcome = AttemptOutcome::failed, .status = 500}, loop.now());
    }
    backend().state().connect_failed(loop.now());
  }
  /// The failures in a row when the server has received a request and not answered it yet.
  std::uint32_t failures_when_sent() {
    Request request = get();
    request.method = "POST";
    std::uint32_t failures = 0;
    auto response = response_to(request, [&] {
      servers[0].connection(servers[0].connections() - 1).read_head();
      failures = backend().state().failures_in_a_row();
      servers[0].connection(servers[0].connections() - 1).send(ok);
    });
    EXPECT_TRUE(response);
    if (response) response->body.reset();
    return failures;
  }
  const evenkeel::Backend& backend() const { return *state->backends()[0]; }
};

TEST_F(ConnectionTest, ThatIsKeptIsNoSignOfARestart) {
  make_connection();
  fail_and_refuse();

  EXPECT_EQ(failures_when_sent(), 5u);
  EXPECT_EQ(servers[0].connections(), 1u);
}

TEST_F(ConnectionTest, ThatIsKeptAndBringsAnAnswerEndsTheBackOffForOthers) {
  make_connection();
  backend().state().connect_failed(loop.now());
  ASSERT_TRUE(backend().state().unreachable(loop.now()));

  EXPECT_EQ(failures_when_sent(), 0u);

  EXPECT_EQ(servers[0].connections(), 1u);
  EXPECT_FALSE(backend().state().connect_failures() != 0);
  EXPECT_TRUE(backend().state().serving());
}

// ---- trials of an ejected backend
// ----------------------------------------------------------------

/// The first backend is ejected and gets a request as its trial; the second is avoided.
class EjectionTrialTest : public ForwarderTest {
 protected:
  EjectionTrialTest() {
    state->activate();
    state->backends()[1]->record_outcome(classify(429, std::chrono::seconds(30)), loop.now());
    const evenkeel::Backend& ejected = *state->backends()[0];
    ejected.state().eject(EjectionReason::consecutive, std::chrono::seconds(1), loop.now());
    ejected.state().allow_trial(loop.now());
    ejected.put_back(OutOfRotation::ejected);
  }

  int status_if_the_trial_fails(std::string_view method) {
    Request request = get();
    request.method = method;
    auto response = response_to(request, [&] {
      EXPECT_TRUE(eventually(loop, [&] { return servers[0].connections() > 0; }));
      servers[0].connection(0).read_head();
      servers[0].connection(0).send("HTTP/1.1 500 Broken\r\nContent-Length: 0\r\n\r\n");
      if (method != "GET") return;
      EXPECT_TRUE(eventually(loop, [&] { return servers[1].connections() > 0; }));
      servers[1].connection(0).read_head();
      servers[1].connection(0).send(ok);
    });
    EXPECT_TRUE(response);
    if (response && response->body) response->body.reset();
    return response ? response->status : 0;
  }
};

TEST_F(EjectionTrialTest, IsRepeatedElsewhereIfItMayBe) {
  EXPECT_EQ(status_if_the_trial_fails("GET"), 200);
  EXPECT_TRUE(state->backends()[0]->state().is_out(OutOfRotation::ejected));
}

TEST_F(EjectionTrialTest, IsNotRepeatedIfTheBackendMayHaveActed) {
  EXPECT_EQ(status_if_the_trial_fails("POST"), 500);
  EXPECT_EQ(servers[1].connections(), 0u);
}

TEST_F(ForwarderTest, PaysNothingForARetryThatNoBackendHasASlotFor) {
  const std::uint8_t vllm = number_of(engine_named("vllm"));
  for (const auto& each : state->backends()) each->findings().set_detected_engine(vllm);
  const evenkeel::Backend& full = *state->backends()[1];
  full.limit(1);
  ASSERT_TRUE(full.try_acquire(loop.now()));
  Request request = get();

  auto response = response_to(request, [&] {
    connected().connection(0).read_head();
    connected().connection(0).send("HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n");
  });

  ASSERT_TRUE(response);
  EXPECT_EQ(response->status, 503);
  EXPECT_EQ(attempts_of(request).size(), 1u);
  EXPECT_EQ(state->retry_budget().left(), RetryBudget::reserve);
  response->body.reset();
  full.release();
}

/// Connections that the server ends with a GOAWAY, whose requests it may have reset before.
class GoawayTest : public ForwarderTest {
 protected:
  GoawayTest() : ForwarderTest(1, BackendProtocol::http2) {}

  /// The result of a request, for which `play` gets the server's end of the connection.
  template <class Play>
  Result<Response> answered(Request& request, Play play) {
    return response_to(request, [&] {
      server = std::make_unique<Http2ServerEnd>(servers[0].connection(0));
      server->accept();
      EXPECT_TRUE(eventually(loop, [&] { return server->requests() == 1; }));
      play();
    });
  }
  void end_connection(bool after_reset) {
    constexpr std::uint8_t internal_error = 2;
    if (after_reset) server->reset(1, internal_error);
    server->go_away(1, 0);
    server->peer().close();
  }
  /// It failed, or did not but counts for the pickers as if its request was in flight.
  void expect_failure(bool failed) {
    EXPECT_EQ(shared().stats.failed_total(), failed ? 1u : 0u);
    EXPECT_EQ(shared().stats.errors_total(Fault::backend_closed), 1u);
    EXPECT_EQ(!shared().state.serving(), failed);
    EXPECT_EQ(shared().failure_penalty(loop.now()) > 0, !failed) << "it looks idle";
  }
  SharedBackend& shared() { return state->backends()[0]->shared(); }

  std::unique_ptr<Http2ServerEnd> server;
};

class GoawayAfterReset : public GoawayTest, public ::testing::WithParamInterface<bool> {};
INSTANTIATE_TEST_SUITE_P(, GoawayAfterReset, ::testing::Bool());

TEST_P(GoawayAfterReset, OfARequestWithoutAnAnswer) {
  Request request = get();
  request.method = "POST";

  const auto response = answered(request, [&] { end_connection(GetParam()); });

  ASSERT_FALSE(response);
  expect_failure(GetParam());
}

TEST_P(GoawayAfterReset, WithinAnAnswer) {
  Request request = get();
  auto response = answered(request, [&] { server->begin_answer(1); });
  ASSERT_TRUE(response);

  auto reading = response->body->read();
  end_connection(GetParam());
  ASSERT_TRUE(eventually(loop, [&] { return reading.ready(); }));
  const auto chunk = reading.take();
  ASSERT_FALSE(chunk);
  request.info.outcome.fault = chunk.error().fault;
  response->body.reset();

  expect_failure(GetParam());
}

// ---- when a response begins ---------------------------------------------------------------------

constexpr const char* stream_head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";

class ResponseStartTest : public ForwarderTest {
 protected:
  ResponseStartTest() : ForwarderTest(1) {}

  SharedBackend& shared() { return state->backends()[0]->shared(); }
  Result<Response> answered(Request& request, std::string_view bytes) {
    return response_to(request, [&] {
      connected().connection(0).read_head();
      connected().connection(0).send(bytes);
    });
  }
  /// The body's next chunk; `play` runs the server meanwhile.
  template <class Play>
  Result<Chunk> next_chunk(Response& response, Play play) {
    Task<Result<Chunk>> task = response.body->read();
    play();
    EXPECT_TRUE(eventually(loop, [&] { return task.ready(); }));
    return task.take();
  }
  std::uint64_t first_bytes() {
    HistogramTotals totals;
    worker_metrics().backend(0).first_byte.add_to(totals);
    return std::accumulate(totals.counts.begin(), totals.counts.end(), std::uint64_t{0});
  }
};

TEST_F(ResponseStartTest, IsTheFirstByteOfAStreamsBody) {
  Request request = get();
  auto response = answered(request, stream_head);
  ASSERT_TRUE(response);
  EXPECT_EQ(request.info.timings.first_byte, Instant{});
  EXPECT_EQ(shared().stats.latency().samples(), 0u)
      << "the head is no sign that the engine has begun";

  const Instant sent = loop.read_clock();
  auto chunk = next_chunk(*response, [&] { connected().connection(0).send("3\r\nabc\r\n"); });

  ASSERT_TRUE(chunk);
  EXPECT_EQ(chunk->bytes, "abc");
  EXPECT_GE(request.info.timings.first_byte, sent);
  EXPECT_EQ(shared().stats.latency().samples(), 1u);
  EXPECT_EQ(first_bytes(), 1u);
  response->body.reset();
  EXPECT_EQ(shared().stats.latency().samples(), 1u);
}

TEST_F(ResponseStartTest, IsTheHeadIfTheLengthIsAnnounced) {
  Request request = get();
  auto response = answered(request, "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n");

  ASSERT_TRUE(response);
  EXPECT_NE(request.info.timings.first_byte, Instant{});
  EXPECT_EQ(shared().stats.latency().samples(), 1u);
  EXPECT_EQ(first_bytes(), 1u);
  response->body.reset();
}

TEST_F(ResponseStartTest, IsTheHeadIfThereIsNoBody) {
  for (const char* bytes :
       {"HTTP/1.1 204 No Content\r\n\r\n", "HTTP/1.1 304 Not Modified\r\n\r\n"}) {
    shared().stats.forget_latency();
    Request request = get();
    auto response = answered(request, bytes);

    ASSERT_TRUE(response) << bytes;
    EXPECT_NE(request.info.timings.first_byte, Instant{}) << bytes;
    EXPECT_EQ(shared().stats.latency().samples(), 1u) << bytes;
    response->body.reset();
  }
}

TEST_F(ResponseStartTest, ComesTooLateIfTheClientLeavesBefore) {
  shared().stats.record_first_byte(Duration(1), loop.now());
  const double before = shared().stats.latency().seconds();
  Request request = get();
  auto response = answered(request, stream_head);
  ASSERT_TRUE(response);
  eventually(loop, [] { return false; }, std::chrono::milliseconds(20));

  response->body.reset();

  EXPECT_GT(shared().stats.latency().seconds(), before);
  EXPECT_EQ(first_bytes(), 0u);
}

TEST_F(ResponseStartTest, CountsAFailedResponseAsTheBackendsError) {
  Request request = get();
  auto response = answered(request, "HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n");

  ASSERT_TRUE(response);
  EXPECT_EQ(shared().stats.failed_responses_total(), 1u);
  EXPECT_EQ(shared().stats.errors_total(), 1u);
  EXPECT_TRUE(shared().state.avoided(loop.now())) << "a busy backend is parked";
  EXPECT_GE(shared().stats.latency().seconds(), 1) << "an early failure is not a fast response";
  EXPECT_EQ(first_bytes(), 0u);
  EXPECT_EQ(worker_metrics().backend(0).status_classes[4].value(), 1u);
  response->body.reset();
  EXPECT_FALSE(shared().stats.recent_summary(loop.now()).total.median);
}

TEST_F(ResponseStartTest, LearnsNothingFromAnErrorOfTheClient) {
  Request request = get();
  auto response = answered(request, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n");

  ASSERT_TRUE(response);
  EXPECT_EQ(shared().stats.errors_total(), 0u);
  EXPECT_EQ(shared().failure_penalty(loop.now()), 0);
  EXPECT_EQ(shared().stats.latency().seconds(), 0);
  EXPECT_EQ(worker_metrics().backend(0).status_classes[3].value(), 1u);
  response->body.reset();
}

TEST_F(ResponseStartTest, CountsAFailedResponseWhoseBodyBreaksOnce) {
  Request request = get();
  auto response = answered(request, "HTTP/1.1 500 No\r\nContent-Length: 9\r\n\r\n");
  ASSERT_TRUE(response);

  auto chunk = next_chunk(*response, [&] { connected().connection(0).close(); });
  ASSERT_FALSE(chunk);
  request.info.outcome.fault = chunk.error().fault;
  response->body.reset();

  EXPECT_EQ(shared().stats.failed_total(), 1u);
  EXPECT_EQ(shared().stats.errors_total(), 1u);
}

}  // namespace
}  // namespace evenkeel
