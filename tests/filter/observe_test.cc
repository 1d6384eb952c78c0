#include "evenkeel/filter/observe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace evenkeel {
namespace {

using namespace std::chrono_literals;

/// A body in the pieces that a test gives; then it ends, or fails.
class Pieces final : public Body {
 public:
  Pieces(Loop& loop, std::deque<std::string> pieces, bool fails)
      : loop_(loop), pieces_(std::move(pieces)), fails_(fails) {}

  Task<Result<Chunk>> read() override {
    co_await loop_.sleep_for(1ms);
    if (!pieces_.empty()) {
      piece_ = std::move(pieces_.front());
      pieces_.pop_front();
      co_return Chunk{.bytes = piece_};
    }
    if (fails_) co_return Error{.fault = Fault::backend_closed, .side = Side::backend};
    co_return Chunk{.last = true};
  }

 private:
  Loop& loop_;
  std::deque<std::string> pieces_;
  std::string piece_;
  bool fails_;
};

struct Model final : Handler {
  explicit Model(Loop& on) : loop(on) {}
  Task<Result<Response>> handle(Request& request) override {
    request.info.outcome.backend_index = 1;
    Response response{.status = status};
    response.fields.add("content-type", content_type, FieldId::content_type);
    response.body = std::make_unique<Pieces>(loop, pieces, fails);
    return Result<Response>(std::move(response));
  }

  Loop& loop;
  int status = 200;
  std::string content_type = "text/event-stream";
  std::deque<std::string> pieces;
  bool fails = false;
};

constexpr std::string_view opening =
    R"(data: {"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]})"
    "\n\n";
constexpr std::string_view text =
    R"(data: {"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":null}]})"
    "\n\n";
constexpr std::string_view end =
    R"(data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]})"
    "\n\n";
constexpr std::string_view usage =
    R"(data: {"choices":[],"usage":{"prompt_tokens":100,"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":64}}})"
    "\n\n";

class Observe : public testing::Test {
 protected:
  Observe() {
    request.info.identity.pool_index = uses.pool("pool");
    request.info.timings.started = loop.read_clock();
    request.info.inference = std::make_unique<InferenceInfo>();
    asked().model = "m";
    asked().complete = true;
    asked().prompt_bytes = 250;
  }

  InferenceRequest& asked() { return request.info.inference->request; }
  const InferenceResponse& reported() const { return request.info.inference->response; }

  /// Reads the response to its end, and drops it.
  std::string answer() {
    if (request.info.inference != nullptr)
      request.info.inference->is_observed = false;  // another request
    auto answered = filter.handle(request, model);
    EXPECT_TRUE(answered.ready());
    auto response = answered.take();
    std::string bytes;
    while (true) {
      auto next = response->body->read();
      EXPECT_TRUE(loop.run_until([&] { return next.ready(); }, Clock::now() + 5s));
      auto chunk = next.take();
      failed = !chunk;
      if (failed) return bytes;
      EXPECT_TRUE(chunk->last || !chunk->bytes.empty()) << "an empty chunk";
      bytes += chunk->bytes;
      if (chunk->last) return bytes;
    }
  }
  ModelMetrics& of_model() {
    return metrics.worker_metrics(0).model(request.info.identity.pool_index,
                                           metrics.label_index().model("m"));
  }
  template <const auto& bounds>
  static std::uint64_t observations(const Histogram<bounds>& histogram) {
    HistogramTotals totals;
    histogram.add_to(totals);
    std::uint64_t count = 0;
    for (const std::uint64_t each : totals.counts) count += each;
    return count;
  }

  /// True if the last stream's trace is beside its time to the first token.
  bool has_exemplar() {
    HistogramTotals totals;
    of_model().first_token.add_to(totals);
    return std::ranges::any_of(totals.exemplars, [&](const Exemplar& each) {
      return std::string_view(each.trace_id.data(), each.trace_id.size()) ==
             request.info.trace->trace_id();
    });
  }

  Loop loop;
  MetricsRegistry metrics{1};
  LabelUses uses{metrics.label_index()};
  TokenEstimates estimates;
  ObserveFilter filter{loop, metrics.worker_metrics(0), metrics.label_index(), estimates};
  Model model{loop};
  Request request;
  bool failed = false;
};

TEST_F(Observe, ReportsTheTokensAndTimesOfAStreamWhoseBytesPassUnchanged) {
  const std::string half(text.substr(0, 30));
  const std::string rest(text.substr(30));
  model.pieces = {std::string(opening), std::string(text), half, rest, std::string(end),
                  std::string(usage),   "data: [DONE]\n\n"};
  std::string sent;
  for (const std::string& piece : model.pieces) sent += piece;

  EXPECT_EQ(answer(), sent);

  EXPECT_EQ(reported().prompt_tokens, 100u);
  EXPECT_EQ(reported().completion_tokens, 3u);
  EXPECT_EQ(reported().cached_tokens, 64u);
  EXPECT_EQ(reported().finish_reason, "stop");
  EXPECT_EQ(reported().output_events, 2u);
  EXPECT_GE(reported().first_output - request.info.timings.started, 2ms);
  EXPECT_GE(reported().max_gap, 2ms);
  EXPECT_EQ(reported().time_per_output_token(), reported().max_gap / 2);
}

TEST_F(Observe, KeepsTheTraceOfAStreamWhoseSpansWillBeExported) {
  Rng rng(1);
  const auto is_kept = [&](double share, Duration slow) {
    model.pieces = {std::string(opening), std::string(text)};
    request.info.inference->response = {};
    request.info.trace = std::make_unique<RequestTrace>(rng, TraceSampler(share));
    request.info.trace->slow = slow;
    answer();
    return has_exemplar();
  };

  EXPECT_TRUE(is_kept(1, Duration::max()));
  EXPECT_FALSE(is_kept(0, 1h));
  EXPECT_TRUE(is_kept(0, 1ns)) << "it was slow";
}

TEST_F(Observe, CountsByModelAndByBackend) {
  model.pieces = {std::string(opening), std::string(text), std::string(text), std::string(usage)};

  answer();

  for (const TokenCounters* tokens :
       {&of_model().tokens, &metrics.worker_metrics(0).backend(1).tokens}) {
    EXPECT_EQ(tokens->value(TokenDirection::input), 100u);
    EXPECT_EQ(tokens->value(TokenDirection::output), 3u);
    EXPECT_EQ(tokens->value(TokenDirection::cached), 64u);
  }
  EXPECT_EQ(observations(of_model().first_token), 1u);
  EXPECT_EQ(observations(of_model().gap), 1u);
  EXPECT_EQ(observations(of_model().per_output_token), 1u);
}

TEST_F(Observe, CountsWhatAnswersThatAreNotStreamsReport) {
  model.content_type = "application/json";
  model.pieces = {R"({"choices":[{"index":0,"finish_reason":"length"}],"usage":{"prompt_)",
                  R"(tokens":7,"completion_tokens":2}})"};

  answer();

  EXPECT_EQ(of_model().tokens.value(TokenDirection::input), 7u);
  EXPECT_EQ(of_model().tokens.value(TokenDirection::output), 2u);
  EXPECT_EQ(reported().finish_reason, "length");
  EXPECT_EQ(observations(of_model().first_token), 0u) << "only streams have a first token";
}

TEST_F(Observe, TeachesTheEstimates) {
  model.pieces = {std::string(usage)};

  asked().prompt_bytes = 1000;

  for (int i = 0; i < 20; ++i) answer();

  EXPECT_GT(estimates.bytes_per_token("m"), 8);
}

TEST_F(Observe, RemovesTheUsageThatOnlyEvenkeelHasAskedFor) {
  model.pieces = {std::string(opening), std::string(text), std::string(end), std::string(usage),
                  "data: [DONE]\n\n"};
  request.info.inference->usage_added = true;

  EXPECT_EQ(answer(),
            std::string(opening) + std::string(text) + std::string(end) + "data: [DONE]\n\n");

  EXPECT_EQ(reported().prompt_tokens, 100u);
}

TEST_F(Observe, KeepsWhatWasHeldBackOfAStreamThatBreaks) {
  model.pieces = {std::string(end), "data: {\"usage\""};
  model.fails = true;
  request.info.inference->usage_added = true;

  EXPECT_EQ(answer(), std::string(end) + "data: {\"usage\"");

  EXPECT_TRUE(failed);
  EXPECT_EQ(reported().finish_reason, "stop");
}

TEST_F(Observe, ReportsWhatCameBeforeAClientLeft) {
  model.pieces = {std::string(opening), std::string(text)};
  auto answered = filter.handle(request, model);
  auto response = answered.take();
  for (int i = 0; i < 2; ++i) {
    auto next = response->body->read();
    ASSERT_TRUE(loop.run_until([&] { return next.ready(); }, Clock::now() + 5s));
  }

  response->body.reset();

  EXPECT_EQ(reported().output_events, 1u);
  EXPECT_EQ(observations(of_model().first_token), 1u);
}

TEST_F(Observe, LeavesOtherResponsesAlone) {
  model.pieces = {std::string(usage)};
  model.status = 404;
  answer();
  model.status = 200;
  model.content_type = "text/html";
  answer();
  EXPECT_EQ(reported().prompt_tokens, std::nullopt);

  model.content_type = "text/event-stream";
  request.info.inference = nullptr;
  EXPECT_EQ(answer(), usage);

  EXPECT_EQ(of_model().tokens.value(TokenDirection::input), 0u);
}

}  // namespace
}  // namespace evenkeel
