#include "evenkeel/http/grpc.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "evenkeel/base/path.h"

namespace evenkeel {
namespace {

using namespace std::chrono_literals;

TEST(GrpcContent, IsRecognisedInAnyCaseAndCoding) {
  for (const std::string_view type : {"application/grpc", "Application/GRPC+proto",
                                      "application/grpc;charset=x", "application/grpc "}) {
    EXPECT_TRUE(is_grpc_content(type)) << type;
  }
  for (const std::string_view type : {"", "application/json", "application/grpc-web",
                                      "application/grp", "xpplication/grpc", "application/g"}) {
    EXPECT_FALSE(is_grpc_content(type)) << type;
  }
}

TEST(GrpcTimeout, IsReadInEveryUnit) {
  EXPECT_EQ(parse_grpc_timeout("100m"), 100ms);
  EXPECT_EQ(parse_grpc_timeout("2H"), 2h);
  EXPECT_EQ(parse_grpc_timeout("3M"), 3min);
  EXPECT_EQ(parse_grpc_timeout("4S"), 4s);
  EXPECT_EQ(parse_grpc_timeout("5u"), 5us);
  EXPECT_EQ(parse_grpc_timeout("6n"), 6ns);
  EXPECT_EQ(parse_grpc_timeout("00000001S"), 1s);
  EXPECT_EQ(parse_grpc_timeout("0S"), 0s);
}

TEST(GrpcTimeout, IsRefusedIfItIsMalformed) {
  for (const std::string_view value : {"", "1", "S", "1s", "1 S", " 1S", "-1S", "+1S", "1.5S",
                                       "1SS", "123456789S", "0x1S", "1\0"}) {
    EXPECT_EQ(parse_grpc_timeout(value), std::nullopt) << value;
  }
}

TEST(GrpcTimeout, BeyondTheClockIsTheLongestDuration) {
  EXPECT_EQ(parse_grpc_timeout("99999999H"), Duration::max());
}

TEST(GrpcTimeout, IsWrittenInTheFinestUnitThatFits) {
  GrpcTimeoutText text;
  EXPECT_EQ(write_grpc_timeout(5ns, text), "5n");
  EXPECT_EQ(write_grpc_timeout(99'999'999ns, text), "99999999n");
  EXPECT_EQ(write_grpc_timeout(100'000'001ns, text), "100001u");
  EXPECT_EQ(write_grpc_timeout(100s, text), "100000m");
  EXPECT_EQ(write_grpc_timeout(Duration::max(), text), "2562048H");
}

TEST(GrpcTimeout, IsNeverZeroOnTheWire) {
  GrpcTimeoutText text;
  EXPECT_EQ(write_grpc_timeout(0ns, text), "1n");
  EXPECT_EQ(write_grpc_timeout(-5s, text), "1n");
}

TEST(GrpcTimeout, IsNeverShortenedByWritingAndReading) {
  for (std::int64_t n = 1; n < 4'000'000'000'000'000'000 / 7; n *= 7) {
    GrpcTimeoutText text;
    const auto again = parse_grpc_timeout(write_grpc_timeout(Duration(n), text));
    ASSERT_TRUE(again);
    EXPECT_GE(*again, Duration(n));
    EXPECT_LE(again->count() - n, n / 10'000 + 1);
  }
}

TEST(GrpcMessage, IsPercentEncodedUnlessPrintableAscii) {
  std::string out;
  append_grpc_message(out, "a%b\n\x7f gr\xc3\xbcn~");
  EXPECT_EQ(out, "a%25b%0A%7F gr%C3%BCn~");
}

TEST(GrpcMessage, KeepsItsSpacesThroughHttp) {
  std::string out;
  append_grpc_message(out, "  a b ");
  EXPECT_EQ(out, "%20 a b%20");
  out.clear();
  append_grpc_message(out, " ");
  EXPECT_EQ(out, "%20");
}

TEST(GrpcMessage, RoundTrips) {
  std::string every;
  for (int i = 0; i < 256; ++i) every += static_cast<char>(i);
  std::string out;
  append_grpc_message(out, every);
  EXPECT_EQ(percent_decoded(out), every);
}

TEST(GrpcMessage, KeepsBrokenEscapes) {
  EXPECT_EQ(percent_decoded("50% off %2 %zz %"), "50% off %2 %zz %");
  EXPECT_EQ(percent_decoded("%c3%BC"), "\xc3\xbc");
}

TEST(GrpcStatus, IsReadOnlyFromAValidNumber) {
  EXPECT_EQ(parse_grpc_status("0"), GrpcStatus::ok);
  EXPECT_EQ(parse_grpc_status("16"), GrpcStatus::unauthenticated);
  for (const std::string_view value : {"", "17", "-1", "1x", " 1", "99999999999"}) {
    EXPECT_EQ(parse_grpc_status(value), std::nullopt) << value;
  }
  for (int i = 0; i < grpc_status_count; ++i) {
    EXPECT_EQ(grpc_status_digits(static_cast<GrpcStatus>(i)), std::to_string(i));
  }
}

TEST(GrpcStatus, OfANonGrpcResponseFollowsTheOfficialTable) {
  EXPECT_EQ(grpc_status_of_http(400), GrpcStatus::internal);
  EXPECT_EQ(grpc_status_of_http(401), GrpcStatus::unauthenticated);
  EXPECT_EQ(grpc_status_of_http(403), GrpcStatus::permission_denied);
  EXPECT_EQ(grpc_status_of_http(404), GrpcStatus::unimplemented);
  for (const int status : {429, 502, 503, 504}) {
    EXPECT_EQ(grpc_status_of_http(status), GrpcStatus::unavailable);
  }
  EXPECT_EQ(grpc_status_of_http(500), GrpcStatus::unknown);
  EXPECT_EQ(grpc_status_of_http(200), GrpcStatus::unknown);
}

}  // namespace
}  // namespace evenkeel
