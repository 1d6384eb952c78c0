#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "bench/http_parser.h"
#include "bench/log_linear_histogram.h"
#include "bench/sse_events.h"

namespace evenkeel::bench {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;

std::string payload_of(BodyParser scan, std::string_view wire, std::size_t piece, bool& done) {
  std::string payload;
  while (!wire.empty() && !scan.done() && !scan.broken()) {
    const BodyParser::Step step = scan.step(wire.substr(0, piece));
    payload += step.payload;
    wire.remove_prefix(step.consumed);
  }
  done = scan.done() && wire.empty();
  return payload;
}

TEST(LogLinearHistogram, QuantilesAreWithinAFifthOfAPercent) {
  LogLinearHistogram histogram;

  for (std::uint64_t value = 1; value <= 100'000; ++value) histogram.add(value);

  EXPECT_THAT(histogram.quantile_ns(0.5), DoubleNear(50'000, 100));
  EXPECT_THAT(histogram.quantile_ns(0.99), DoubleNear(99'000, 198));
  EXPECT_EQ(histogram.max_ns(), 100'000U);
}

TEST(LogLinearHistogram, AnEmptyOneHasNoQuantile) {
  EXPECT_EQ(LogLinearHistogram().quantile_ns(0.5), 0);
}

TEST(HttpHead, WaitsForItsBlankLine) {
  EXPECT_FALSE(parse_head("HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r"));
}

TEST(HttpHead, FindsFramingWhateverTheCaseOfNames) {
  const auto head = parse_head(
      "POST /v1 HTTP/1.1\r\nHost: a\r\nCONTENT-Length:  17\r\nConnection: Close\r\n\r\nbody");

  ASSERT_TRUE(head);
  EXPECT_EQ(head->content_length, 17U);
  EXPECT_TRUE(head->close);
  EXPECT_FALSE(head->chunked);
  EXPECT_EQ(request_target(head->start_line), "/v1");
}

TEST(HttpHead, ReadsTheStatus) {
  EXPECT_EQ(status_code("HTTP/1.1 503 Service Unavailable"), 503);
  EXPECT_EQ(status_code("SSH-2.0-OpenSSH_9.2"), 0);
}

TEST(BodyParser, FindsAChunkedBodyInPiecesOfAnySize) {
  const std::string wire = "5;note=x\r\nhello\r\nB\r\n, and again\r\n0\r\nchecksum: 1\r\n\r\n";

  for (std::size_t piece = 1; piece <= wire.size(); ++piece) {
    bool done = false;
    EXPECT_EQ(payload_of(BodyParser::chunked(), wire, piece, done), "hello, and again");
    EXPECT_TRUE(done) << "in pieces of " << piece;
  }
}

TEST(BodyParser, FailsOnAMalformedSize) {
  BodyParser scan = BodyParser::chunked();

  scan.step("xyz\r\n");

  EXPECT_TRUE(scan.broken());
}

TEST(BodyParser, CountsDroppedBytes) {
  BodyParser scan = BodyParser::of_length(100);

  scan.step("0123456789");
  scan.skip(90);

  EXPECT_TRUE(scan.done());
}

TEST(TimestampedEvents, AreFoundForAnySplit) {
  TimestampedEvent event(200);
  std::string wire(event.chunk_with_timestamp(11));
  wire += event.chunk_with_timestamp(12'345'678'901'234);

  for (std::size_t piece = 1; piece <= wire.size(); ++piece) {
    TimestampParser scan;
    std::vector<std::uint64_t> stamps;
    for (std::size_t at = 0; at < wire.size(); at += piece) {
      scan.feed(std::string_view(wire).substr(at, piece),
                [&](std::uint64_t stamp) { stamps.push_back(stamp); });
    }
    EXPECT_THAT(stamps, ElementsAre(11U, 12'345'678'901'234U)) << "in pieces of " << piece;
  }
}

TEST(TimestampedEvents, IncludeTheirChunkSize) {
  TimestampedEvent event(200);
  bool done = false;

  const std::string wire = std::string(event.chunk_with_timestamp(7)) + "0\r\n\r\n";

  EXPECT_EQ(payload_of(BodyParser::chunked(), wire, wire.size(), done).size(), 200U);
  EXPECT_TRUE(done);
}

}  // namespace
}  // namespace evenkeel::bench
