#include "evenkeel/stats/span_formatter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <simdjson.h>

#include <memory>
#include <string>
#include <vector>

namespace evenkeel {
namespace {

using namespace std::chrono_literals;

constexpr Instant started{10s};

AccessLogEntry ordinary(std::span<const AttemptRecord> attempts) {
  return {.time = std::chrono::system_clock::time_point(1'795'260'631s),
          .request_id = "r-1",
          .client = "203.0.113.9",
          .listener = "public",
          .protocol = "HTTP/2",
          .method = "POST",
          .host = "api.example.com",
          .path = "/v1/completions?api_key=x",
          .route = "chat",
          .pool = "llama",
          .backend = "[::1]:8000",
          .status = 200,
          .attempts = attempts,
          .bytes_in = 412,
          .bytes_out = 18'230,
          .duration = 2s};
}

RequestSpans ordinary_spans() {
  return {.trace_id = "4bf92f3577b34da6a3ce929d0e0e4736",
          .parent = "00f067aa0ba902b7",
          .first = 16,
          .before_attempts = 2,
          .picker = "least-connections",
          .started = started};
}

std::string json_of(const AccessLogEntry& entry, const RequestSpans& spans) {
  auto buffer = std::make_unique<SpanBuffer>();  // on the heap, where ASan sees every overrun
  return "[" + std::string(format_spans(entry, spans, *buffer)) + "]";
}

/// The number of spans; the whole must be valid JSON.
std::size_t count_of(const std::string& json) {
  simdjson::dom::parser parser;
  simdjson::dom::array spans;
  const auto error = parser.parse(json).get(spans);
  EXPECT_FALSE(error) << simdjson::error_message(error) << "\n" << json;
  return error ? 0 : spans.size();
}

TEST(SpanFormatter, TakesTheHostApartFromItsPort) {
  const auto has = [](std::string_view host, const std::string& attributes) {
    AccessLogEntry entry = ordinary({});
    entry.host = host;
    return json_of(entry, ordinary_spans()).find(attributes) != std::string::npos;
  };
  const std::string port = R"({"key":"server.port","value":{"intValue":"81"}},)";
  const std::string client = R"({"key":"client.address")";
  EXPECT_TRUE(has("a:81", R"({"key":"server.address","value":{"stringValue":"a"}},)" + port));
  EXPECT_TRUE(has("[::1]:81", R"({"key":"server.address","value":{"stringValue":"::1"}},)" + port));
  EXPECT_TRUE(has("[::1]", R"({"key":"server.address","value":{"stringValue":"::1"}},)" + client));
}

TEST(SpanFormatter, WritesTheSpanOfTheRequestAndOneForEachAttempt) {
  const AttemptRecord attempts[] = {
      {.backend = "gpu1:8000",
       .connect = 1ms,
       .fault = Fault::connect_failed,
       .began = started + 10ms,
       .ended = started + 20ms},
      {.backend = "[::1]:8000", .why = PickReason::waited, .began = started + 30ms}};
  EXPECT_EQ(
      json_of(ordinary(attempts), ordinary_spans()),
      R"([{"traceId":"4bf92f3577b34da6a3ce929d0e0e4736","spanId":"0000000000000010",)"
      R"("parentSpanId":"00f067aa0ba902b7","kind":2,"startTimeUnixNano":"1795260631000000000",)"
      R"("endTimeUnixNano":"1795260633000000000","name":"POST chat","attributes":[)"
      R"({"key":"http.request.method","value":{"stringValue":"POST"}},)"
      R"({"key":"http.route","value":{"stringValue":"chat"}},)"
      R"({"key":"url.path","value":{"stringValue":"/v1/completions"}},)"
      R"({"key":"url.scheme","value":{"stringValue":"http"}},)"
      R"({"key":"server.address","value":{"stringValue":"api.example.com"}},)"
      R"({"key":"client.address","value":{"stringValue":"203.0.113.9"}},)"
      R"({"key":"network.protocol.version","value":{"stringValue":"2"}},)"
      R"({"key":"http.response.status_code","value":{"intValue":"200"}},)"
      R"({"key":"http.request.body.size","value":{"intValue":"412"}},)"
      R"({"key":"http.response.body.size","value":{"intValue":"18230"}},)"
      R"({"key":"evenkeel.request_id","value":{"stringValue":"r-1"}},)"
      R"({"key":"evenkeel.listener","value":{"stringValue":"public"}},)"
      R"({"key":"evenkeel.pool","value":{"stringValue":"llama"}},)"
      R"({"key":"evenkeel.backend","value":{"stringValue":"[::1]:8000"}},)"
      R"({"key":"evenkeel.attempts","value":{"intValue":"2"}},)"
      R"({"key":"evenkeel.overhead_ms","value":{"doubleValue":0.000}}]},)"
      R"({"traceId":"4bf92f3577b34da6a3ce929d0e0e4736","spanId":"0000000000000012",)"
      R"("parentSpanId":"0000000000000010","kind":3,"startTimeUnixNano":"1795260631010000000",)"
      R"("endTimeUnixNano":"1795260631020000000","name":"POST llama","attributes":[)"
      R"({"key":"http.request.method","value":{"stringValue":"POST"}},)"
      R"({"key":"server.address","value":{"stringValue":"gpu1"}},)"
      R"({"key":"server.port","value":{"intValue":"8000"}},)"
      R"({"key":"error.type","value":{"stringValue":"connect_failed"}},)"
      R"({"key":"evenkeel.backend","value":{"stringValue":"gpu1:8000"}},)"
      R"({"key":"evenkeel.pool","value":{"stringValue":"llama"}},)"
      R"({"key":"evenkeel.picker","value":{"stringValue":"least-connections"}},)"
      R"({"key":"evenkeel.pick.reason","value":{"stringValue":"picked"}},)"
      R"({"key":"evenkeel.connect_ms","value":{"doubleValue":1.000}}],)"
      R"("status":{"code":2,"message":"connect_failed"}},)"
      R"({"traceId":"4bf92f3577b34da6a3ce929d0e0e4736","spanId":"0000000000000013",)"
      R"("parentSpanId":"0000000000000010","kind":3,"startTimeUnixNano":"1795260631030000000",)"
      R"("endTimeUnixNano":"1795260633000000000","name":"POST llama","attributes":[)"
      R"({"key":"http.request.method","value":{"stringValue":"POST"}},)"
      R"({"key":"server.address","value":{"stringValue":"::1"}},)"
      R"({"key":"server.port","value":{"intValue":"8000"}},)"
      R"({"key":"http.response.status_code","value":{"intValue":"200"}},)"
      R"({"key":"http.request.resend_count","value":{"intValue":"1"}},)"
      R"({"key":"evenkeel.backend","value":{"stringValue":"[::1]:8000"}},)"
      R"({"key":"evenkeel.pool","value":{"stringValue":"llama"}},)"
      R"({"key":"evenkeel.picker","value":{"stringValue":"least-connections"}},)"
      R"({"key":"evenkeel.pick.reason","value":{"stringValue":"waited"}},)"
      R"({"key":"evenkeel.connect_ms","value":{"doubleValue":0.000}}]}])");
}

TEST(SpanFormatter, FitsWhateverTheValuesAre) {
  for (const std::string& piece : {std::string("\""), std::string(1, '\0'), std::string("\xff"),
                                   std::string("\xf0\x9f\x90\x9f"), std::string("a")}) {
    std::string bytes;
    while (bytes.size() < 10'000) bytes += piece;
    const std::vector<AttemptRecord> attempts(
        AttemptList::capacity,
        AttemptRecord{.backend = bytes, .connect = Duration::max(), .status = 65'535});
    const AccessLogInference model{.model = bytes,
                                   .task = bytes,
                                   .max_tokens = UINT32_MAX,
                                   .prompt_tokens = UINT64_MAX,
                                   .completion_tokens = UINT64_MAX,
                                   .cached_tokens = UINT64_MAX,
                                   .finish_reason = bytes,
                                   .first_token = Duration::max(),
                                   .per_output_token = Duration::max()};
    AccessLogEntry entry = ordinary(attempts);
    for (std::string_view* value :
         {&entry.request_id, &entry.client, &entry.listener, &entry.method, &entry.host,
          &entry.path, &entry.route, &entry.pool, &entry.backend, &entry.priority, &entry.tenant,
          &entry.reason}) {
      *value = bytes;
    }
    entry.protocol = bytes;
    entry.grpc_status = 255;
    entry.bytes_in = entry.bytes_out = UINT64_MAX;
    entry.status = 599;
    entry.overhead = Duration::max();
    entry.first_byte = Duration::max();
    entry.inference = &model;
    for (const bool gen_ai : {false, true}) {
      RequestSpans spans = ordinary_spans();
      spans.uses_gen_ai_names = gen_ai;
      spans.queued = started + 1ms;
      EXPECT_EQ(count_of(json_of(entry, spans)), AttemptList::capacity + 2);
    }
  }
}

TEST(SpanFormatter, HasFailedThroughNoFaultOfItsClient) {
  EXPECT_FALSE(has_failed(200, false, {}));
  EXPECT_FALSE(has_failed(404, false, {}));
  EXPECT_TRUE(has_failed(502, false, {}));
  EXPECT_FALSE(has_failed(499, true, {}));
  EXPECT_TRUE(has_failed(200, true, {}));
  EXPECT_FALSE(has_failed(200, false, 5));
  EXPECT_TRUE(has_failed(200, false, 14));
}

}  // namespace
}  // namespace evenkeel
