#include "evenkeel/filter/grpc.h"

#include <gtest/gtest.h>

#include <chrono>
#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "evenkeel/http/grpc.h"

namespace evenkeel {
namespace {

using namespace std::chrono_literals;

using Pairs = std::vector<std::pair<std::string, std::string>>;

Pairs pairs_of(const Fields& fields) {
  Pairs pairs;
  for (const Field& field : fields) pairs.emplace_back(field.name(), field.value());
  return pairs;
}

/// One step of a backend's body: waits, yields bytes, fails, or ends.
struct Step {
  std::string bytes;
  bool last = false;
  std::optional<Pairs> trailers;
  std::optional<Fault> fault;
  bool waits = false;  // for ever
};

/// A backend's body with scripted steps.
class Script final : public Body {
 public:
  Script(Loop& loop, std::deque<Step> steps, bool& gone)
      : loop_(loop), steps_(std::move(steps)), gone_(gone) {}
  ~Script() override { gone_ = true; }

  Task<Result<Chunk>> read() override {
    step_ = std::move(steps_.front());
    steps_.pop_front();
    if (step_.waits) co_await loop_.sleep_until(never);
    if (step_.fault) co_return Error{.fault = *step_.fault, .side = Side::backend, .detail = "ow"};
    if (!step_.trailers) co_return Chunk{.bytes = step_.bytes, .last = step_.last};
    trailers_.clear();
    for (const auto& [name, value] : *step_.trailers) trailers_.add(name, value);
    co_return Chunk{.bytes = step_.bytes, .last = true, .trailers = &trailers_};
  }
  std::optional<std::uint64_t> length() const override {
    return steps_.empty() ? 0 : std::optional<std::uint64_t>(77);
  }

 private:
  Loop& loop_;
  std::deque<Step> steps_;
  Step step_;
  Fields trailers_;
  bool& gone_;
};

/// A backend with a scripted response.
struct Backend final : Handler {
  explicit Backend(Loop& on) : loop(on) {}
  Task<Result<Response>> handle(Request& request) override {
    ++asked;
    wanted_trailers = request.wants_trailers;
    struct Left {
      bool& left;
      ~Left() { left = true; }
    } tell{left};
    if (silent) co_await loop.sleep_until(never);
    if (fault) co_return Error{.fault = *fault, .side = Side::backend};
    Response response{.status = status};
    for (const auto& [name, value] : fields) response.fields.add(name, value);
    if (steps) response.body = std::make_unique<Script>(loop, *steps, body_gone);
    co_return response;
  }

  Loop& loop;
  int status = 200;
  Pairs fields{{"content-type", "application/grpc"}};
  std::optional<std::deque<Step>> steps;
  std::optional<Fault> fault;
  bool silent = false;
  int asked = 0;
  bool wanted_trailers = false;
  bool left = false;
  bool body_gone = false;
};

class Grpc : public testing::Test {
 protected:
  Grpc() {
    request.method = "POST";
    request.path = "/p.S/M";
    request.info.timings.started = loop.read_clock();
    request.fields.add("content-type", "application/grpc+proto");
  }

  Result<Response> answer() {
    auto answered = filter.handle(request, backend);
    EXPECT_TRUE(loop.run_until([&] { return answered.ready(); }, Clock::now() + 5s));
    return answered.take();
  }
  /// Reads to the end, where the trailers stay.
  Pairs trailers_of(Response& response) {
    while (true) {
      auto next = response.body->read();
      EXPECT_TRUE(loop.run_until([&] { return next.ready(); }, Clock::now() + 5s));
      auto chunk = next.take();
      if (!chunk) {
        ADD_FAILURE() << "the body failed: " << chunk.error().detail;
        return {};
      }
      bytes += chunk->bytes;
      if (chunk->last) return chunk->trailers == nullptr ? Pairs{} : pairs_of(*chunk->trailers);
    }
  }

  Loop loop;
  GrpcFilter filter{loop};
  Backend backend{loop};
  Request request;
  std::string bytes;
};

TEST_F(Grpc, PassesOtherRequestsUnchanged) {
  request.fields.clear();
  request.fields.add("content-type", "application/json");
  request.fields.add("grpc-timeout", "nonsense");
  backend.status = 503;
  backend.fields = {{"content-type", "text/html"}};

  const auto response = answer();

  EXPECT_EQ(response->status, 503);
  EXPECT_EQ(request.info.outcome.grpc_status, std::nullopt);
  EXPECT_FALSE(backend.wanted_trailers);
}

TEST_F(Grpc, LowersATimeoutThatIsLongerThanTheMaximum) {
  backend.steps = {{.trailers = Pairs{{"grpc-status", "0"}}}};
  const Instant started = request.info.timings.started;
  request.info.timings.max_call = 10s;
  for (const auto& [asked, deadline] :
       {std::pair{"99H", started + 10s}, {"10S", started + 10s}, {"9S", started + 9s}}) {
    request.fields.clear();
    request.fields.add("content-type", "application/grpc");
    request.fields.add("grpc-timeout", asked);

    auto answered = filter.handle(request, backend);
    EXPECT_TRUE(loop.run_until([&] { return answered.ready(); }, Clock::now() + 5s));

    EXPECT_EQ(request.info.timings.deadline, deadline) << asked;
  }
}

TEST_F(Grpc, PassesACallThroughAndNotesItsStatus) {
  backend.steps = {{.bytes = "one"}, {.bytes = "two"}, {.trailers = Pairs{{"grpc-status", "5"}}}};

  auto response = answer();
  EXPECT_EQ(request.info.outcome.grpc_status, 1);  // if its client left now
  EXPECT_EQ(response->body->length(), std::nullopt);
  const Pairs trailers = trailers_of(*response);

  EXPECT_EQ(bytes, "onetwo");
  EXPECT_EQ(trailers, (Pairs{{"grpc-status", "5"}}));
  EXPECT_EQ(request.info.outcome.grpc_status, 5);
  EXPECT_EQ(request.info.outcome.fault, std::nullopt);
  EXPECT_TRUE(backend.wanted_trailers);
}

TEST_F(Grpc, PassesTrailersOnlyThrough) {
  backend.fields = {
      {"content-type", "application/grpc"}, {"grpc-status", "12"}, {"grpc-message", "no"}};

  const auto response = answer();

  EXPECT_EQ(pairs_of(response->fields), backend.fields);
  EXPECT_EQ(response->body, nullptr);
  EXPECT_EQ(request.info.outcome.grpc_status, 12);
}

TEST_F(Grpc, TakesTheStatusFromTheHeadEvenIfABodyFollows) {
  backend.fields = {{"content-type", "application/grpc"}, {"grpc-status", "7"}};
  backend.steps.emplace().push_back({.last = true});
  auto response = answer();
  EXPECT_EQ(trailers_of(*response), Pairs{});
  EXPECT_EQ(request.info.outcome.grpc_status, 7);
  EXPECT_EQ(request.info.outcome.fault, std::nullopt);
}

TEST_F(Grpc, CountsAnInvalidStatusAsOther) {
  backend.steps = {{.trailers = Pairs{{"grpc-status", "4711"}}}};
  auto response = answer();
  EXPECT_EQ(trailers_of(*response), (Pairs{{"grpc-status", "4711"}}));
  EXPECT_GT(*request.info.outcome.grpc_status, 16);
}

TEST_F(Grpc, AddsAStatusToACallThatEndsWithoutOne) {
  backend.steps = {{.bytes = "one"}, {.bytes = "two", .trailers = Pairs{{"x-mine", "kept"}}}};

  auto response = answer();
  const Pairs trailers = trailers_of(*response);

  EXPECT_EQ(bytes, "onetwo");
  EXPECT_EQ(trailers, (Pairs{{"x-mine", "kept"},
                             {"grpc-status", "2"},
                             {"grpc-message", "the server ended the call without a status"},
                             {"x-evenkeel-reason", "backend_protocol"}}));
  EXPECT_EQ(request.info.outcome.grpc_status, 2);
  EXPECT_EQ(request.info.outcome.fault, Fault::backend_protocol);
}

TEST_F(Grpc, AddsAStatusToAHeadWithoutBodyAndStatus) {
  const auto response = answer();
  EXPECT_EQ(response->fields.value("grpc-status"), "2");
  EXPECT_EQ(request.info.outcome.fault, Fault::backend_protocol);
}

TEST_F(Grpc, TurnsABackendsFailureInTheMiddleIntoTrailers) {
  backend.steps = {{.bytes = "one"}, {.fault = Fault::backend_closed}};

  auto response = answer();
  const Pairs trailers = trailers_of(*response);

  EXPECT_EQ(bytes, "one");
  EXPECT_EQ(trailers, (Pairs{{"grpc-status", "14"},
                             {"grpc-message", "ow"},
                             {"x-evenkeel-reason", "backend_closed"}}));
  EXPECT_EQ(request.info.outcome.grpc_status, 14);
  EXPECT_EQ(request.info.outcome.fault, Fault::backend_closed);
  EXPECT_TRUE(backend.body_gone);
}

TEST_F(Grpc, PassesAClientDisconnectThrough) {
  backend.steps = {{.fault = Fault::client_gone}};
  auto response = answer();
  auto chunk = response->body->read().take();
  ASSERT_FALSE(chunk);
  EXPECT_EQ(chunk.error().fault, Fault::client_gone);
  EXPECT_EQ(request.info.outcome.grpc_status, 1);
}

TEST_F(Grpc, TurnsAGatewaysErrorPageIntoAStatus) {
  const std::pair<int, std::string> cases[] = {{502, "14"}, {503, "14"}, {429, "14"}, {404, "12"},
                                               {401, "16"}, {403, "7"},  {400, "13"}, {500, "2"}};
  for (const auto& [status, expected] : cases) {
    backend.status = status;
    backend.fields = {{"content-type", "text/html"}, {"x-gateway", "g1"}};
    backend.steps = {{.bytes = "<html>"}};
    backend.body_gone = false;

    const auto response = answer();

    EXPECT_EQ(response->status, 200);
    EXPECT_EQ(pairs_of(response->fields),
              (Pairs{{"content-type", "application/grpc"},
                     {"grpc-status", expected},
                     {"grpc-message", "the server answered HTTP " + std::to_string(status)},
                     {"x-gateway", "g1"}}));
    EXPECT_EQ(response->body, nullptr);
    EXPECT_TRUE(backend.body_gone);
    EXPECT_EQ(*request.info.outcome.grpc_status, std::stoi(expected));
  }
}

TEST_F(Grpc, KeepsAGrpcStatusSentWithAnHttpError) {
  backend.status = 503;
  backend.fields = {{"grpc-status", "8"}, {"grpc-message", "full%21 50%25"}};
  const auto response = answer();
  EXPECT_EQ(response->status, 200);
  EXPECT_EQ(response->fields.value("grpc-status"), "8");
  EXPECT_EQ(response->fields.value("grpc-message"), "full! 50%25");
}

TEST_F(Grpc, RejectsANonGrpcBodyWithStatus200) {
  backend.fields = {{"content-type", "text/html"}};
  backend.steps = {{.bytes = "<html>"}};
  const auto response = answer();
  EXPECT_EQ(response->fields.value("grpc-status"), "2");
  EXPECT_EQ(response->fields.value("grpc-message"), "the server answered with text/html");
  EXPECT_EQ(request.info.outcome.fault, Fault::backend_protocol);
}

TEST_F(Grpc, PassesErrorsThrough) {
  backend.fault = Fault::no_backend;
  const auto response = answer();
  ASSERT_FALSE(response);
  EXPECT_EQ(response.error().fault, Fault::no_backend);
}

TEST_F(Grpc, RefusesAnInvalidTimeout) {
  request.fields.add("grpc-timeout", "5 minutes");
  const auto response = answer();
  ASSERT_FALSE(response);
  EXPECT_EQ(response.error().fault, Fault::bad_request);
  EXPECT_EQ(backend.asked, 0);
}

TEST_F(Grpc, CountsTheDeadlineFromTheFirstByte) {
  request.fields.add("grpc-timeout", "10S");
  request.info.timings.started -= 3s;
  backend.fields.emplace_back("grpc-status", "0");
  (void)answer();
  EXPECT_EQ(request.info.timings.deadline, request.info.timings.started + 10s);

  rewrite_grpc_timeout(request, request.info.timings.started + 4s);
  EXPECT_EQ(request.fields.value("grpc-timeout"), "6000000u");
}

TEST_F(Grpc, IgnoresADeadlineBeyondTheClock) {
  request.fields.add("grpc-timeout", "99999999H");
  backend.fields.emplace_back("grpc-status", "0");
  EXPECT_TRUE(answer().ok());
}

TEST_F(Grpc, SendsNothingAfterTheDeadline) {
  request.fields.add("grpc-timeout", "1S");
  request.info.timings.started -= 2s;
  const auto response = answer();
  ASSERT_FALSE(response);
  EXPECT_EQ(response.error().fault, Fault::deadline_exceeded);
  EXPECT_EQ(backend.asked, 0);
}

TEST_F(Grpc, DropsABackendThatMissesTheDeadline) {
  request.fields.add("grpc-timeout", "20m");
  backend.silent = true;

  const auto response = answer();

  ASSERT_FALSE(response);
  EXPECT_EQ(response.error().fault, Fault::deadline_exceeded);
  EXPECT_TRUE(backend.left);
  EXPECT_GE(Clock::now() - request.info.timings.started, 20ms);
}

TEST_F(Grpc, EndsALateResponseWithTrailers) {
  request.fields.add("grpc-timeout", "40m");
  backend.steps = {{.bytes = "one"}, {.waits = true}};

  auto response = answer();
  ASSERT_TRUE(response.ok());
  const Pairs trailers = trailers_of(*response);

  EXPECT_EQ(bytes, "one");
  EXPECT_EQ(trailers, (Pairs{{"grpc-status", "4"},
                             {"grpc-message", "the deadline of the call has passed"},
                             {"x-evenkeel-reason", "deadline_exceeded"}}));
  EXPECT_EQ(request.info.outcome.fault, Fault::deadline_exceeded);
  EXPECT_EQ(request.info.outcome.grpc_status, 4);
  EXPECT_TRUE(backend.body_gone);
}

TEST_F(Grpc, EndsAResponseThatIsReadTooSlowlyWithTrailers) {
  request.fields.add("grpc-timeout", "40m");
  backend.steps = {{.bytes = "one"}, {.bytes = "two"}};
  auto response = answer();
  (void)response->body->read().take();

  loop.run_until([] { return false; }, request.info.timings.started + 41ms);

  EXPECT_EQ(trailers_of(*response)[0], (std::pair<std::string, std::string>("grpc-status", "4")));
  EXPECT_TRUE(backend.body_gone);
}

}  // namespace
}  // namespace evenkeel
