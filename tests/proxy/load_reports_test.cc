#include "proxy/load_reports.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "wire/scripted_body.h"

namespace evenkeel {
namespace {

constexpr std::string_view report = "TEXT named_metrics.num_requests_waiting=3";

/// A response with a report, to a request that has passed through here.
struct Exchange {
  explicit Exchange(std::string_view client_format = {}) {
    if (!client_format.empty()) request.fields.add("endpoint-load-metrics-format", client_format);
    ask_for_load_report(request);
    response.fields.add("endpoint-load-metrics", report);
    take_load_report(loop, backend, request, response);
  }
  double waiting() const { return backend.signals().values().waiting; }

  Loop loop;
  Backend backend{BackendSpec{.id = "b"}};
  Request request{.method = "POST", .path = "/v1/completions"};
  Response response;
};

TEST(LoadReports, AreAskedForReadAndNotPassedOn) {
  const Exchange exchange;
  EXPECT_EQ(exchange.request.fields.value("endpoint-load-metrics-format"), "text");
  EXPECT_EQ(exchange.waiting(), 3);
  EXPECT_FALSE(exchange.response.fields.value("endpoint-load-metrics").has_value());
}

TEST(LoadReports, ArePassedOnToAClientThatAskedForThem) {
  for (const char* format : {"JSON", "text"}) {
    const Exchange exchange(format);
    EXPECT_EQ(exchange.request.fields.value("endpoint-load-metrics-format"), format);
    EXPECT_EQ(exchange.waiting(), 3);
    EXPECT_EQ(exchange.response.fields.value("endpoint-load-metrics"), report);
  }
}

/// The trailers of a call, after its report was taken.
class Call {
 public:
  explicit Call(bool client_asks) {
    request.fields.add("content-type", "application/grpc");
    if (client_asks) request.fields.add("endpoint-load-metrics-format", "text");
    ask_for_load_report(request);
    auto feed = std::make_shared<BodyFeed>(loop);
    response.body = std::make_unique<ScriptedBody>(feed);
    take_load_report(loop, backend, request, response);
    Task<void> reading = read();
    EXPECT_FALSE(reading.ready());
    feed->push("message");
    feed->trailers.add("grpc-status", "0");
    // A message with named_metrics {"num_requests_waiting": 2}.
    feed->trailers.add("endpoint-load-metrics-bin", "Qh8KFG51bV9yZXF1ZXN0c193YWl0aW5nEQAAAAAAAABA");
    feed->end();
    EXPECT_TRUE(
        loop.run_until([&] { return reading.ready(); }, Clock::now() + std::chrono::seconds(20)));
  }

  Loop loop;
  Backend backend{BackendSpec{.id = "b"}};
  Request request{.method = "POST", .path = "/inference.GRPCInferenceService/ModelInfer"};
  Response response;
  std::string bytes;
  std::string trailers;

 private:
  Task<void> read() {
    while (true) {
      auto chunk = co_await response.body->read();
      bytes += chunk->bytes;
      if (!chunk->last) continue;
      for (const Field& field : *chunk->trailers) trailers.append(field.name()).append(" ");
      co_return;
    }
  }
};

TEST(LoadReports, AreReadFromTheTrailersOfACall) {
  const Call call(false);
  EXPECT_EQ(call.bytes, "message");
  EXPECT_EQ(call.backend.signals().values().waiting, 2);
  EXPECT_EQ(call.trailers, "grpc-status ");

  const Call asked(true);
  EXPECT_EQ(asked.backend.signals().values().waiting, 2);
  EXPECT_EQ(asked.trailers, "grpc-status endpoint-load-metrics-bin ");
}

}  // namespace
}  // namespace evenkeel
