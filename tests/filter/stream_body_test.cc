#include "evenkeel/filter/stream_body.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "wire/scripted_body.h"

namespace evenkeel {
namespace {

/// The fault that is found in a stream whose chunks end at `cut` and at its end.
std::optional<Fault> fault_in(std::string_view stream, std::size_t cut,
                              ResponseFormat format = ResponseFormat::events) {
  Loop loop;
  auto feed = std::make_shared<BodyFeed>(loop);
  RequestInfo info;
  StreamBody body(loop, std::make_unique<ScriptedBody>(feed), format, info);
  body.find_errors();
  Collected all;
  if (cut > 0) feed->push(std::string(stream.substr(0, cut)));
  if (cut < stream.size()) feed->push(std::string(stream.substr(cut)));
  feed->end();
  Task<void> reading = collect(body, all);
  EXPECT_TRUE(reading.ready());
  EXPECT_EQ(all.bytes, stream);
  return info.outcome.fault;
}

/// Whether its lines end as they do here, or in CR alone.
void expect_at_each_cut(std::optional<Fault> expected, std::string_view stream,
                        ResponseFormat format = ResponseFormat::events) {
  std::string with_cr(stream);
  std::replace(with_cr.begin(), with_cr.end(), '\n', '\r');
  for (std::size_t cut = 0; cut <= stream.size(); ++cut) {
    EXPECT_EQ(fault_in(stream, cut, format), expected) << stream << " cut at " << cut;
    EXPECT_EQ(fault_in(with_cr, cut, format), expected) << with_cr << " cut at " << cut;
  }
}

constexpr std::string_view token = "data: {\"choices\":[{\"delta\":{\"content\":\"x\"}}]}\n\n";

TEST(StreamErrors, AreFoundWhereverTheChunksAreCut) {
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

TEST(StreamErrors, AreFoundInJsonLines) {
  expect_at_each_cut(Fault::stream_error, "{\"response\":\"x\"}\n{\"error\":\"model crashed\"}\n",
                     ResponseFormat::json_lines);
}

TEST(StreamErrors, OfClientsAndQuotedOnesAreNone) {
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

/// An error of the backend or of the client, with so many bytes of data.
std::string long_error(std::size_t length, std::string_view code) {
  constexpr std::size_t data_name = 5;  // "data:"
  const std::string begin = "data: {\"error\": {\"message\": \"";
  const std::string end = std::string("\", \"code\": ").append(code) + "}}";
  return begin + std::string(length + data_name - begin.size() - end.size(), 'x') + end + "\n\n";
}

TEST(StreamErrors, InLongLinesAreTheSameWhereverTheChunksAreCut) {
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
  RequestInfo info;
  StreamBody body(loop, std::make_unique<ScriptedBody>(feed), ResponseFormat::events, info);
  body.end_with_error(ErrorFormat::openai);
  feed->push(std::string(begun));
  feed->fail({.fault = Fault::backend_closed, .side = Side::backend});
  Collected all;
  Task<void> reading = collect(body, all);
  EXPECT_TRUE(reading.ready());
  return all.bytes.substr(begun.size());
}

TEST(StreamBody, EndsHalfAnEventBeforeItsError) {
  for (const std::string_view half : {"data: x", "data: x\n", "data: x\r\n", "data: x\r"}) {
    EXPECT_TRUE(end_after(half).starts_with("\n\ndata: ")) << half;
  }
  for (const std::string_view whole : {"data: x\n\n", "data: x\r\n\r\n", "data: x\r\r"}) {
    EXPECT_TRUE(end_after(whole).starts_with("data: ")) << whole;
  }
}

TEST(StreamBody, EndsWithAnErrorEventIfTheHeadMayHaveBeenWritten) {
  for (const bool waits : {false, true}) {
    Loop loop;
    auto feed = std::make_shared<BodyFeed>(loop);
    RequestInfo info;
    StreamBody body(loop, std::make_unique<ScriptedBody>(feed), ResponseFormat::events, info);
    body.end_with_error(ErrorFormat::openai);
    const auto fail = [&feed] {
      feed->fail({.fault = Fault::backend_closed, .side = Side::backend});
    };
    if (!waits) fail();
    Collected all;
    Task<void> reading = collect(body, all);
    EXPECT_EQ(reading.ready(), !waits);
    if (waits) fail();
    loop.run_until([&reading] { return reading.ready(); });
    EXPECT_EQ(all.bytes.starts_with("data: "), waits);
  }
}

/// Counts chunks, and what was known when they came.
struct Listener final : StreamListener {
  explicit Listener(bool wanted) : wants(wanted) {}
  bool wants_output() const override { return wants; }
  void on_chunk(const Chunk& /*chunk*/, const InferenceResponse& response, Instant) override {
    outputs.push_back(response.output_events);
  }
  bool wants;
  std::vector<std::uint32_t> outputs;
};

TEST(StreamBody, CountsOutputOnlyWhileItsSourceWantsIt) {
  Loop loop;
  auto feed = std::make_shared<BodyFeed>(loop);
  RequestInfo info;
  StreamBody body(loop, std::make_unique<ScriptedBody>(feed), ResponseFormat::events, info);
  Listener listener(true);
  body.set_source(listener);
  Collected all;
  Task<void> reading = collect(body, all);
  const auto push = [&](std::string_view bytes) {
    feed->push(std::string(bytes));
    loop.run_until([&] { return feed->pending.empty(); }, Clock::now() + std::chrono::seconds(5));
  };

  push(token);
  listener.wants = false;
  push(token.substr(0, 20));
  push(token.substr(20));
  push(token.substr(0, 20));
  listener.wants = true;
  push(token.substr(20));
  push(token);
  feed->end();
  loop.run_until([&] { return reading.ready(); }, Clock::now() + std::chrono::seconds(5));

  EXPECT_EQ(listener.outputs, (std::vector<std::uint32_t>{1, 1, 1, 1, 1, 2, 2}))
      << "half an event tells nothing";
  EXPECT_EQ(all.bytes.size(), 4 * token.size());
}

}  // namespace
}  // namespace evenkeel
