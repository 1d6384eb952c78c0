#include "wire/http2_guard.h"

#include <gtest/gtest.h>

#include <string_view>

namespace evenkeel {
namespace {

using namespace std::chrono_literals;

constexpr std::uint8_t data = 0;
constexpr std::uint8_t headers = 1;
constexpr std::uint8_t priority = 2;
constexpr std::uint8_t rst_stream = 3;
constexpr std::uint8_t settings = 4;
constexpr std::uint8_t ping = 6;
constexpr std::uint8_t end_stream = 1;
constexpr std::uint8_t ack = 1;

constexpr std::uint32_t protocol_error = 1;
constexpr std::uint32_t stream_closed = 5;
constexpr std::uint32_t frame_size_error = 6;
constexpr std::uint32_t enhance_your_calm = 11;

class Http2GuardTest : public testing::Test {
 protected:
  std::uint32_t code_of(const Http2Guard::Verdict& verdict) const {
    return verdict ? verdict->code : 0;
  }
  std::uint32_t frame(std::uint8_t type, std::int32_t stream, std::uint32_t length = 8,
                      std::uint8_t flags = 0, bool alive = false) {
    return code_of(guard.frame({length, type, flags, stream}, {}, alive, now));
  }
  /// How many of `tries` events pass, one every `pause`.
  template <class Act>
  int passes(int tries, Duration pause, Act act) {
    for (int i = 0; i < tries; ++i) {
      if (act(i) != 0) return i;
      now += pause;
    }
    return tries;
  }

  Instant now = Instant{} + 1h;
  Http2Guard guard{Http2Guard::Side::server};
};

TEST_F(Http2GuardTest, AClosedStreamRefusesFrames) {
  EXPECT_EQ(frame(headers, 1), 0u);
  EXPECT_EQ(frame(data, 1, 8, 0, true), 0u);
  guard.closed(1, Http2Guard::Closed::done);
  EXPECT_EQ(frame(data, 1), stream_closed);
  EXPECT_EQ(frame(headers, 1), stream_closed);
}

TEST_F(Http2GuardTest, AStreamResetByThePeerRefusesFrames) {
  EXPECT_EQ(frame(headers, 1), 0u);
  guard.closed(1, Http2Guard::Closed::by_peer);
  EXPECT_EQ(frame(data, 1), stream_closed);
}

TEST_F(Http2GuardTest, FramesInFlightDuringOurResetAreIgnored) {
  EXPECT_EQ(frame(headers, 1), 0u);
  guard.closed(1, Http2Guard::Closed::by_us);
  EXPECT_EQ(frame(data, 1), 0u);
  EXPECT_EQ(frame(headers, 1), 0u);
}

TEST_F(Http2GuardTest, StreamsAreOpenedInOrder) {
  EXPECT_EQ(frame(headers, 5), 0u);
  EXPECT_EQ(frame(headers, 3), protocol_error);
}

TEST_F(Http2GuardTest, NeedsStreamStateOnlyForOpenedStreams) {
  EXPECT_FALSE(guard.needs_stream_state({8, headers, 0, 1}));
  EXPECT_EQ(frame(headers, 1), 0u);
  EXPECT_TRUE(guard.needs_stream_state({8, headers, 0, 1}));
  EXPECT_TRUE(guard.needs_stream_state({8, data, 0, 1}));
  EXPECT_FALSE(guard.needs_stream_state({8, ping, 0, 0}));
  EXPECT_FALSE(guard.needs_stream_state({8, headers, 0, 3}));
}

TEST_F(Http2GuardTest, PriorityIsValidated) {
  const std::string_view none("\0\0\0\0", 4);
  const std::string_view three("\0\0\0\3", 4);
  EXPECT_EQ(Http2Guard::payload_bytes_needed({5, priority, 0, 3}), 4u);
  EXPECT_EQ(Http2Guard::payload_bytes_needed({4, priority, 0, 3}), 0u);
  EXPECT_EQ(Http2Guard::payload_bytes_needed({5, data, 0, 3}), 0u);
  EXPECT_EQ(code_of(guard.frame({5, priority, 0, 3}, none, false, now)), 0u);
  EXPECT_EQ(code_of(guard.frame({5, priority, 0, 0}, none, false, now)), protocol_error);
  EXPECT_EQ(code_of(guard.frame({4, priority, 0, 3}, {}, false, now)), frame_size_error);
  EXPECT_EQ(code_of(guard.frame({5, priority, 0, 3}, three, false, now)), protocol_error);
}

TEST_F(Http2GuardTest, RapidResetIsLimitedAfterItsBurst) {
  const int passed = passes(20'000, 0ms, [&](int) { return frame(rst_stream, 1, 4); });
  EXPECT_EQ(passed, 1000);
  EXPECT_EQ(frame(rst_stream, 1, 4), enhance_your_calm);
}

TEST_F(Http2GuardTest, FiftyCancelledCallsASecondAreAllowed) {
  EXPECT_EQ(passes(6'000, 20ms,
                   [&](int i) {
                     if (const auto code = frame(headers, 2 * i + 1, 60)) return code;
                     return frame(rst_stream, 2 * i + 1, 4);
                   }),
            6'000);
}

TEST_F(Http2GuardTest, BackendResetsAreNotLimited) {
  guard = Http2Guard(Http2Guard::Side::client);
  EXPECT_EQ(passes(20'000, 0ms,
                   [&](int i) {
                     frame(data, 2 * i + 1, 100);
                     return frame(rst_stream, 2 * i + 1, 4);
                   }),
            20'000);
}

TEST_F(Http2GuardTest, StreamErrorsCountOnEitherSide) {
  EXPECT_EQ(passes(1'000, 0ms, [&](int) { return code_of(guard.stream_error(now)); }), 100);
}

TEST_F(Http2GuardTest, IdlePingsAreLimited) {
  EXPECT_EQ(passes(1'000, 0ms, [&](int) { return frame(ping, 0); }), 101);  // the first is free
}

TEST_F(Http2GuardTest, BandwidthProbePingsAreFree) {
  EXPECT_EQ(passes(50'000, 0ms,
                   [&](int) {
                     guard.sent_message_frame(1000);
                     frame(data, 1, 1000, 0, true);
                     return frame(ping, 0);
                   }),
            50'000);
}

TEST_F(Http2GuardTest, EightPingsASecondAreAlwaysFree) {
  EXPECT_EQ(passes(10'000, 125ms, [&](int) { return frame(ping, 0); }), 10'000);
}

TEST_F(Http2GuardTest, AcknowledgementsOfSettingsAreNotSettings) {
  EXPECT_EQ(passes(1'000, 0ms, [&](int) { return frame(settings, 0, 0, ack); }), 1'000);
  EXPECT_EQ(passes(1'000, 0ms, [&](int) { return frame(settings, 0, 6); }), 100);
}

TEST_F(Http2GuardTest, EmptyDataIsAFloodUnlessItEndsAStream) {
  EXPECT_EQ(passes(10'000, 0ms, [&](int) { return frame(data, 1, 0, end_stream, true); }), 10'000);
  EXPECT_EQ(passes(10'000, 0ms, [&](int) { return frame(data, 1, 0, 0, true); }), 100);
}

TEST_F(Http2GuardTest, UnknownFramesAreLimitedAfterTheirBurst) {
  EXPECT_EQ(passes(10'000, 0ms, [&](int) { return frame(0x42, 0, 0); }), 1000);
}

TEST_F(Http2GuardTest, FramesWithoutPayloadAreLimited) {
  // One byte of payload each: ten bytes on the wire for one.
  const int passed = passes(10'000'000, 0ms, [&](int) { return frame(data, 1, 1, 0, true); });
  EXPECT_GT(passed, 1'000'000);
  EXPECT_LT(passed, 10'000'000);
}

TEST_F(Http2GuardTest, LongDownloadsAreNotAFlood) {
  EXPECT_EQ(passes(5'000'000, 0ms,
                   [&](int) {
                     guard.sent_message_frame(16 * 1024);
                     return frame(8, 0, 4);
                   }),
            5'000'000);
}

TEST_F(Http2GuardTest, StreamsAfterGoawayAreIgnored) {
  EXPECT_EQ(frame(headers, 1), 0u);
  guard.goaway_sent(1);
  EXPECT_EQ(frame(headers, 3), 0u);
  EXPECT_EQ(frame(data, 3), 0u);
  guard.closed(1, Http2Guard::Closed::done);
  EXPECT_EQ(frame(data, 1), stream_closed);
}

TEST_F(Http2GuardTest, SmallMessagesAreNotAFlood) {
  EXPECT_EQ(passes(3'000'000, 0ms, [&](int) { return frame(data, 1, 5, 0, true); }), 3'000'000);
}

TEST_F(Http2GuardTest, WindowsMayBeOpenedAsDataArrives) {
  EXPECT_EQ(passes(100'000, 0ms,
                   [&](int) {
                     guard.sent_message_frame(1000);
                     if (const auto code = code_of(guard.window_update(60, now))) return code;
                     return code_of(guard.window_update(60, now));
                   }),
            100'000);
}

TEST_F(Http2GuardTest, WindowsOfManySmallCallsMayBeOpenedAtOnce) {
  for (int i = 0; i < 3'000; ++i) guard.sent_message_frame(100);
  EXPECT_EQ(passes(6'000, 0ms, [&](int) { return code_of(guard.window_update(60, now)); }), 6'000);
}

TEST_F(Http2GuardTest, WindowsOpenedByteByByteAreAFlood) {
  const int passed =
      passes(100'000, 0ms, [&](int) { return code_of(guard.window_update(1, now)); });
  EXPECT_EQ(passed, 1100);
}

TEST_F(Http2GuardTest, WindowsOpenedByFourKiBAreFree) {
  EXPECT_EQ(passes(100'000, 0ms, [&](int) { return code_of(guard.window_update(4096, now)); }),
            100'000);
}

}  // namespace
}  // namespace evenkeel
