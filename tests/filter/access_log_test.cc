#include "evenkeel/filter/access_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace evenkeel {
namespace {

using namespace std::chrono_literals;

/// Responds with status 200 or fails, as the test says.
class ScriptedBackend final : public Handler {
 public:
  Task<Result<Response>> handle(Request& request) override {
    request.info.outcome.attempts.add({.backend = "10.0.0.1:8000"});
    if (failure) return Result<Response>(Error(*failure));
    return Result<Response>(Response{.status = 200});
  }
  std::optional<Error> failure;
};

class AccessLogFilterTest : public ::testing::Test {
 protected:
  Result<Response> answer() {
    auto task = filter.handle(request, backend);
    EXPECT_TRUE(task.ready());
    return task.take();
  }
  std::uint64_t failed(Fault fault) {
    return metrics.worker_metrics(0).pool(pool).errors.value(fault);
  }
  std::uint64_t ended() { return metrics.worker_metrics(0).requests(0, pool).value(200); }

  Loop loop;
  MetricsRegistry metrics{1};
  LabelUses uses{metrics.label_index()};
  std::uint32_t pool = uses.pool("pool");
  RequestRecorder recorder{loop, metrics.worker_metrics(0), nullptr};
  AccessLogFilter filter{recorder};
  ScriptedBackend backend;
  Request request{.info = {.identity = {.request_id = "r-1", .pool_index = pool},
                           .timings = {.started = loop.now()}}};
};

TEST_F(AccessLogFilterTest, CountsARequestWhenItsBodyIsDropped) {
  auto response = answer();
  request.info.outcome.status = 200;
  EXPECT_EQ(metrics.in_flight(pool), 1);
  EXPECT_EQ(ended(), 0);

  response->body.reset();

  EXPECT_EQ(metrics.in_flight(pool), 0);
  EXPECT_EQ(ended(), 1);
}

TEST_F(AccessLogFilterTest, RemembersTheLastRequestsToModels) {
  request.info.inference = std::make_unique<InferenceInfo>();
  request.info.inference->request.model = "llama";
  request.info.inference->request.estimated_prompt_tokens = 12;
  InferenceResponse& response = request.info.inference->response;
  response.completion_tokens = 3;
  response.output_events = 2;
  response.first_output = request.info.timings.started + 20ms;
  response.last_output = response.first_output + 10ms;
  response.max_gap = 10ms;
  auto answered = answer();
  request.info.outcome.status = 200;

  answered->body.reset();

  std::vector<RecentRequest> recent;
  metrics.worker_metrics(0).recent_requests().append_to(recent);
  ASSERT_EQ(recent.size(), 1u);
  EXPECT_EQ(recent[0].request_id.view(), "r-1");
  EXPECT_EQ(recent[0].model.view(), "llama");
  EXPECT_EQ(recent[0].status, 200);
  EXPECT_EQ(recent[0].attempt_count, 1);
  EXPECT_EQ(recent[0].attempts[0].backend.view(), "10.0.0.1:8000");
  EXPECT_EQ(recent[0].attempts[0].outcome.view(), "answered");
  EXPECT_EQ(recent[0].estimated_prompt_tokens, 12u);
  EXPECT_EQ(recent[0].prompt_tokens, -1);
  EXPECT_EQ(recent[0].completion_tokens, 3);
  EXPECT_EQ(recent[0].first_token, 20'000);
  EXPECT_EQ(recent[0].per_output_token, 5'000);
  EXPECT_EQ(recent[0].max_gap, 10'000);
}

TEST_F(AccessLogFilterTest, KeepsTheTraceOfARequestWhoseSpansAreExported) {
  Rng rng(1);
  const auto trace_of_its_duration = [&](double share, int status) {
    auto response = answer();
    request.info.outcome.status = status;
    request.info.trace = std::make_unique<RequestTrace>(rng, TraceSampler(share));
    const std::string id(request.info.trace->trace_id());
    response->body.reset();
    HistogramTotals totals;
    metrics.worker_metrics(0).pool(pool).duration.add_to(totals);
    return std::ranges::any_of(totals.exemplars, [&](const Exemplar& each) {
      return std::string_view(each.trace_id.data(), each.trace_id.size()) == id;
    });
  };

  EXPECT_FALSE(trace_of_its_duration(0, 200));
  EXPECT_TRUE(trace_of_its_duration(1, 200));
  EXPECT_TRUE(trace_of_its_duration(0, 502));
}

TEST_F(AccessLogFilterTest, TurnsAnErrorIntoAnAnswerWithItsReasonAndTheRequestId) {
  backend.failure = Error{.fault = Fault::connect_failed, .side = Side::backend};

  auto response = answer();

  ASSERT_TRUE(response);
  EXPECT_EQ(response->status, 502);
  EXPECT_EQ(response->fields.value("x-evenkeel-reason"), "connect_failed");
  EXPECT_EQ(response->fields.value("x-request-id"), "r-1");
  request.info.outcome.status = 502;
  response->body.reset();
  EXPECT_EQ(failed(Fault::connect_failed), 1);
}

TEST_F(AccessLogFilterTest, AnErrorSaysWhyNoBackendGotTheRequest) {
  backend.failure = Error{.fault = Fault::queue_full};
  request.info.inference = std::make_unique<InferenceInfo>();
  auto silent = answer();
  EXPECT_FALSE(silent->fields.value("x-evenkeel-decision"));

  request.info.inference->refusal = "state=refused";
  auto response = answer();
  EXPECT_EQ(response->fields.value("x-evenkeel-decision"), "state=refused");
}

TEST_F(AccessLogFilterTest, CountsAClientThatLeftAsGone) {
  auto response = answer();

  response->body.reset();  // nothing was written

  EXPECT_EQ(failed(Fault::client_gone), 1);
}

TEST_F(AccessLogFilterTest, BlamesTheShutdownForRequestsThatItEnds) {
  recorder.start_draining();
  auto response = answer();
  request.info.outcome.status = 200;

  response->body.reset();

  EXPECT_EQ(failed(Fault::draining), 1);
}

}  // namespace
}  // namespace evenkeel
