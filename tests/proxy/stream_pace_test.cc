#include "proxy/stream_pace.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

namespace evenkeel {
namespace {

using namespace std::chrono_literals;

/// Reads chunks as they come every 10 ms, as ForwardedBody does: those to skip not at all.
std::vector<Duration> intervals_of(StreamPace& pace, const std::vector<std::string>& chunks) {
  std::vector<Duration> intervals;
  Instant now = Instant{} + 1s;
  int skipped = 0;
  for (const std::string& chunk : chunks) {
    now += 10ms;
    if (--skipped >= 0) continue;
    if (const auto interval = pace.read(chunk, &chunk == &chunks.back(), now))
      intervals.push_back(*interval);
    skipped = pace.chunks_to_skip();
  }
  return intervals;
}

TEST(StreamPace, MeasuresTheTimeBetweenEventsNowAndThen) {
  StreamPace pace(ResponseFormat::events);
  const std::vector<std::string> chunks(200, "data: {\"choices\":[{\"text\":\"a\"}]}\n\n");

  const auto intervals = intervals_of(pace, chunks);

  EXPECT_GE(intervals.size(), 3u);
  EXPECT_LE(intervals.size(), 5u);
  for (const Duration each : intervals) EXPECT_EQ(each, 10ms);
}

/// Nothing but its length tells where a message of gRPC ends, so none may be skipped.
TEST(StreamPace, IsNotLostBetweenTheMessagesOfAGrpcStream) {
  StreamPace pace(ResponseFormat::grpc_stream);
  std::string stream;
  for (int i = 0; i < 400; ++i) {
    const std::size_t size = i % 2 == 0 ? 700 : 300;
    stream +=
        std::string{'\0', '\0', '\0', static_cast<char>(size >> 8), static_cast<char>(size & 0xff)};
    stream.append(size, 'x');
  }
  std::vector<std::string> chunks;  // in each of which one message begins, on the average
  for (std::size_t at = 0; at < stream.size(); at += 505) chunks.push_back(stream.substr(at, 505));

  const auto intervals = intervals_of(pace, chunks);

  EXPECT_GE(intervals.size(), 3u);
  EXPECT_LE(intervals.size(), 8u);
  for (const Duration each : intervals) EXPECT_EQ(each / 1ms, 10) << intervals.size();
}

}  // namespace
}  // namespace evenkeel
