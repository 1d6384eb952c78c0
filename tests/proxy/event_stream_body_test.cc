#include "proxy/event_stream_body.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "wire/scripted_body.h"

namespace evenkeel {
namespace {

/// The fault that is found in a stream whose chunks end at `cut` and at its end.
std::optional<Fault> fault_in(std::string_view stream, std::size_t cut,
                              std::string_view type = "text/event-stream") {
  Loop loop;
  auto feed = std::make_shared<BodyFeed>(loop);
  Request request{.method = "POST", .path = "/v1/chat/completions"};
  Response response;
  response.fields.add("content-type", type);
  EventStreamBody body(request, response, std::make_unique<ScriptedBody>(feed), request.info, true);
  Collected all;
  if (cut > 0) feed->push(std::string(stream.substr(0, cut)));
  if (cut < stream.size()) feed->push(std::string(stream.substr(cut)));
  feed->end();
  Task<void> reading = collect(body, all);
  EXPECT_TRUE(reading.ready());
  EXPECT_EQ(all.bytes, stream);
  return request.info.outcome.fault;
}

/// Whether its lines end as they do here, or in CR alone.
void expect_at_each_cut(std::optional<Fault> expected, std::string_view stream,
                        std::string_view type = "text/event-stream") {
  std::string with_cr(stream);
  std::replace(with_cr.begin(), with_cr.end(), '\n', '\r');
  for (std::size_t cut = 0; cut <= stream.size(); ++cut) {
    EXPECT_EQ(fault_in(stream, cut, type), expected) << stream << " cut at " << cut;
    EXPECT_EQ(fault_in(with_cr, cut, type), expected) << with_cr << " cut at " << cut;
  }
}

constexpr std::string_view token = "data: {\"choices\":[{\"delta\":{\"content\":\"x\"}}]}\n\n";

TEST(EventStreamErrors, AreFoundWhereverTheChunksAreCut) {
  for (const std::string_view event : {
           "data: {\"error\":{\"message\":\"EngineCore died\",\"code\":500}}\n\n",
           "data:{\"error\": {\"message\":\"x\"}}\n\n",
           "data: {\"object\":\"error\",\"message\":\"x\",\"code\":500}\n\n",
           "data: {\"error\":\"x\"}\r\n\r\n",
           "data:{\"error\":\"x\",\"error_type\":\"generation\"}\n\n",
           "event: error\ndata: {\"type\":\"error\"}\n\n",
           "event: error\n\n",
           "data: {\"error\":\"no empty line follows\"}",
       }) {
    expect_at_each_cut(Fault::stream_error, std::string(token).append(event));
    if (!event.ends_with('\n')) continue;
    expect_at_each_cut(Fault::stream_error, std::string(token).append(event) + "data: [DONE]\n\n");
  }
}

TEST(EventStreamErrors, AreFoundInJsonLines) {
  expect_at_each_cut(Fault::stream_error, "{\"response\":\"x\"}\n{\"error\":\"model crashed\"}\n",
                     "application/x-ndjson");
}

TEST(EventStreamErrors, OfClientsAndQuotedOnesAreNone) {
  for (const std::string_view event : {
           "data: {\"error\":{\"message\":\"too long\",\"code\":400}}\n\n",
           "event: error\ndata: {\"code\": 404}\n\n",
           "data:{\"error\":\"`inputs` is too long\",\"error_type\":\"validation\"}\n\n",
           "data: {\"error\": null, \"choices\":[]}\n\n",
           "data: {\"text\":\"data: {\\\"error\\\":1}\"}\n\n",
           "data: {\"object\":\"chat.completion.chunk\"}\n\n",
           "event: errors\ndata: {}\n\n",
       }) {
    expect_at_each_cut(std::nullopt, std::string(token).append(event).append(token));
  }
}

/// An error of the backend or of the client, in a line of this length.
std::string long_error(std::size_t length, std::string_view code) {
  const std::string begin = "data: {\"error\": {\"message\": \"";
  const std::string end = std::string("\", \"code\": ").append(code) + "}}";
  return begin + std::string(length - begin.size() - end.size(), 'x') + end + "\n\n";
}

TEST(EventStreamErrors, InLongLinesAreTheSameWhereverTheChunksAreCut) {
  constexpr std::size_t longest = 16 * 1024;
  for (const std::size_t cut :
       {0U, 1U, 20U, 60U, 4095U, 4096U, 4500U, 5000U, 16383U, 16384U, 16385U}) {
    for (const std::size_t length : {std::size_t{5000}, longest}) {
      EXPECT_EQ(fault_in(long_error(length, "400"), cut), std::nullopt) << cut << ' ' << length;
      EXPECT_EQ(fault_in(long_error(length, "500"), cut), Fault::stream_error)
          << cut << ' ' << length;
    }
    const std::string too_long = long_error(longest + 1, "500");
    EXPECT_EQ(fault_in(too_long, cut), std::nullopt) << cut;
    EXPECT_EQ(fault_in("event: error\n" + too_long, cut), std::nullopt) << cut;
    EXPECT_EQ(fault_in(too_long + long_error(100, "500"), cut), Fault::stream_error) << cut;
  }
}

/// What the client gets after this beginning of a stream, which the backend breaks off.
std::string end_after(std::string_view begun) {
  Loop loop;
  auto feed = std::make_shared<BodyFeed>(loop);
  Request request{.method = "POST", .path = "/v1/chat/completions"};
  Response response;
  response.fields.add("content-type", "text/event-stream");
  EventStreamBody body(request, response, std::make_unique<ScriptedBody>(feed), request.info, true);
  feed->push(std::string(begun));
  feed->fail({.fault = Fault::backend_closed, .side = Side::backend});
  Collected all;
  Task<void> reading = collect(body, all);
  EXPECT_TRUE(reading.ready());
  return all.bytes.substr(begun.size());
}

TEST(EventStream, EndsHalfAnEventBeforeItsError) {
  for (const std::string_view half : {"data: x", "data: x\n", "data: x\r\n", "data: x\r"}) {
    EXPECT_TRUE(end_after(half).starts_with("\n\ndata: ")) << half;
  }
  for (const std::string_view whole : {"data: x\n\n", "data: x\r\n\r\n", "data: x\r\r"}) {
    EXPECT_TRUE(end_after(whole).starts_with("data: ")) << whole;
  }
}

bool applies_to(std::string_view type, std::string_view coding = "") {
  Loop loop;
  Response response;
  response.fields.add("content-type", type);
  if (!coding.empty()) response.fields.add("content-encoding", coding);
  response.body = std::make_unique<ScriptedBody>(std::make_shared<BodyFeed>(loop));
  return EventStreamBody::applies_to(response);
}

TEST(EventStream, IsFoundByItsTypeInAnyCaseIfItIsNotCompressed) {
  for (const std::string_view type : {"text/event-stream", "Text/Event-Stream; charset=utf-8",
                                      "text/event-stream;charset=utf-8", "Application/X-NDJSON"}) {
    EXPECT_TRUE(applies_to(type)) << type;
    EXPECT_TRUE(applies_to(type, "Identity")) << type;
    EXPECT_FALSE(applies_to(type, "gzip")) << type;
  }
  for (const std::string_view type : {"text/event-streams", "text/plain", "text/event-strea", ""})
    EXPECT_FALSE(applies_to(type)) << type;
}

}  // namespace
}  // namespace evenkeel
