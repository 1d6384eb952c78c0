#include "wire/chunked.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "evenkeel/base/rng.h"

namespace evenkeel {
namespace {

using Step = ChunkedDecoder::Step;

struct Decoding {
  Step step = Step::more;
  std::string payload;
  std::size_t consumed = 0;
  std::string trailers;

  bool operator==(const Decoding&) const = default;
};

/// Feeds the bytes cut at the given places, each piece in a buffer of its own.
Decoding decode_cut(std::string_view bytes, const std::vector<std::size_t>& cuts) {
  ChunkedDecoder decoder;
  Decoding decoding;
  std::size_t at = 0;
  for (std::size_t i = 0; i <= cuts.size() && decoding.step == Step::more; ++i) {
    const std::size_t upto = i < cuts.size() ? cuts[i] : bytes.size();
    std::string piece(bytes.substr(at, upto - at));
    const auto decoded = decoder.decode(piece.data(), piece.size());
    decoding.step = decoded.step;
    if (decoded.step == Step::failed) return {.step = Step::failed};
    decoding.payload += decoded.payload;
    decoding.consumed += decoded.consumed;
    at = upto;
  }
  for (const Field& field : decoder.trailers()) {
    decoding.trailers.append(field.name()).append("=").append(field.value()).append(";");
  }
  return decoding;
}
Decoding decode(std::string_view bytes) { return decode_cut(bytes, {}); }

bool fails(std::string_view bytes) { return decode(bytes).step == Step::failed; }

TEST(ChunkedDecoder, DecodesTheSameForEverySplitInThree) {
  const std::string_view message =
      "5\r\nhello\r\nA;x;y=z;q=\"a\\\"b\"\r\n, cruel\r\nw\r\n003\r\norl\r\n1\r\nd\r\n0\r\nx-a: "
      "1\r\nX-B:  two \r\n\r\nGET";
  const Decoding whole = decode(message);
  ASSERT_EQ(whole.step, Step::done);
  EXPECT_EQ(whole.payload, "hello, cruel\r\nworld");
  EXPECT_EQ(whole.trailers, "x-a=1;X-B=two;");
  EXPECT_EQ(message.substr(whole.consumed), "GET");

  for (std::size_t first = 1; first < message.size(); ++first) {
    for (std::size_t second = first; second < message.size(); ++second) {
      ASSERT_EQ(decode_cut(message, {first, second}), whole) << first << ' ' << second;
    }
  }
}

TEST(ChunkedDecoder, CompactsTheChunksOfOneRead) {
  std::string bytes = "1\r\na\r\n1\r\nb\r\n1\r\nc\r\n0\r\n\r\n";
  ChunkedDecoder decoder;

  const auto decoded = decoder.decode(bytes.data(), bytes.size());

  EXPECT_EQ(decoded.step, Step::done);
  EXPECT_EQ(decoded.payload, "abc");
  EXPECT_GE(decoded.payload.data(), bytes.data());
}

TEST(ChunkedDecoder, RoundTripsForAnyChunksAndSplits) {
  Rng rng(7);
  for (int round = 0; round < 2000; ++round) {
    std::string payload;
    std::string message;
    const std::uint32_t chunks = rng.below(12);
    for (std::uint32_t i = 0; i < chunks; ++i) {
      const std::uint32_t size = 1 + (rng.below(4) == 0 ? rng.below(5000) : rng.below(20));
      std::string chunk(size, '\0');
      for (char& c : chunk) c = static_cast<char>(rng.below(256));
      char line[18];
      message.append(line, write_chunk_size(line, chunk.size()));
      message += chunk + "\r\n";
      payload += chunk;
    }
    message += "0\r\n\r\n";
    const std::size_t length = message.size();
    message += "next";

    std::vector<std::size_t> cuts;
    for (std::size_t at = rng.below(40); at < message.size(); at += 1 + rng.below(3000))
      cuts.push_back(at);
    const Decoding decoding = decode_cut(message, cuts);

    ASSERT_EQ(decoding.step, Step::done);
    ASSERT_EQ(decoding.payload, payload);
    ASSERT_EQ(decoding.consumed, length);
  }
}

TEST(ChunkedDecoder, RejectsAmbiguousSizes) {
  for (const std::string_view line : {"",
                                      " 5",
                                      "5 ",
                                      "5\t",
                                      "+5",
                                      "-5",
                                      "-0x0",
                                      "0x5",
                                      "5_0",
                                      "g",
                                      "5g",
                                      "0_2e",
                                      "1these-bytes",
                                      "\xb5",
                                      "5h",
                                      "10000000000000000",
                                      "00000000000000005",
                                      "ffffffffffffffff",
                                      "4000000000000000",
                                      "5\x0b"}) {
    EXPECT_TRUE(fails(std::string(line) + "\r\nhello\r\n0\r\n\r\n")) << line;
  }
}

TEST(ChunkedDecoder, AcceptsSizesUpToSixteenDigits) {
  EXPECT_EQ(decode("0000000000000005\r\nhello\r\n0\r\n\r\n").payload, "hello");
  EXPECT_EQ(decode("3fffffffffffffff\r\nx").step, Step::more);
  EXPECT_EQ(decode("aB\r\n").step, Step::more);
}

TEST(ChunkedDecoder, RefusesLinesThatDoNotEndInCrLf) {
  EXPECT_TRUE(fails("5\nhello\r\n0\r\n\r\n"));
  EXPECT_TRUE(fails("5\rhello\r\n0\r\n\r\n"));
  EXPECT_TRUE(fails("5\r\r;ABCD\r\n"));
  EXPECT_TRUE(fails("5\r\nhello\n0\r\n\r\n"));
  EXPECT_TRUE(fails("5\r\nhello0\r\n\r\n"));
  EXPECT_TRUE(fails("5\r\nhello\r0\r\n\r\n"));
  EXPECT_TRUE(fails("5\r\nhelloXX0\r\n\r\n"));
  EXPECT_TRUE(fails("5\r\nhello!\r\n0\r\n\r\n"));
  EXPECT_TRUE(fails("0\n\r\n"));
  EXPECT_TRUE(fails("0\r\n\n"));
  EXPECT_TRUE(fails("0\r\nx: 1\n\r\n"));
  EXPECT_TRUE(fails("0\r\nx: 1\r\r\n\r\n"));
}

TEST(ChunkedDecoder, ChecksAndDropsExtensions) {
  for (const std::string_view extension : {";a", ";a=b", ";a=\"b\"", ";a=\"\"", ";a;b;c=d",
                                           ";a=\"\\\"\"", ";a=\"b;c=d\"", ";a=\"\tx\""}) {
    EXPECT_EQ(decode("2" + std::string(extension) + "\r\nhi\r\n0\r\n\r\n").payload, "hi")
        << extension;
  }
  for (const std::string_view extension :
       {";", "; a", ";a =b", ";a= b", ";=b", ";a=", ";a=\"b", ";a=\"b\"c", ";a\x01", ";a=\"\x01\"",
        ";a=\"\n\"", ";a\n", ";a=\"\\\x01\"", ";a\r", ";a=b=c", ";;", ";a;", ";\xff"}) {
    EXPECT_TRUE(fails("2" + std::string(extension) + "\r\nhi\r\n0\r\n\r\n")) << extension;
  }
}

TEST(ChunkedDecoder, BoundsExtensions) {
  EXPECT_EQ(decode("2;" + std::string(200, 'a') + "\r\nhi\r\n0\r\n\r\n").step, Step::done);
  EXPECT_TRUE(fails("2;" + std::string(300, 'a') + "\r\nhi\r\n0\r\n\r\n"));
  EXPECT_TRUE(fails("2;" + std::string(300, 'a')));  // before the end of the line too

  std::string many;
  for (int i = 0; i < 30; ++i) many += "1;" + std::string(200, 'a') + "\r\nx\r\n";
  EXPECT_TRUE(fails(many));
}

TEST(ChunkedDecoder, BoundsTrailers) {
  const auto trailers = [](int count, std::size_t size) {
    std::string text = "0\r\n";
    for (int i = 0; i < count; ++i) text += "x-a: " + std::string(size, 'v') + "\r\n";
    return text + "\r\n";
  };
  EXPECT_EQ(decode(trailers(64, 10)).step, Step::done);
  EXPECT_TRUE(fails(trailers(65, 10)));
  EXPECT_EQ(decode(trailers(1, 8000)).step, Step::done);
  EXPECT_TRUE(fails(trailers(1, 8200)));
  EXPECT_TRUE(fails(trailers(10, 900)));
  EXPECT_TRUE(fails("0\r\nx-a: " + std::string(9000, 'v')));
}

TEST(ChunkedDecoder, AppliesFieldRulesToTrailers) {
  for (const std::string_view line :
       {"x : 1", ": 1", "x", "x: 1\r\n y", " x: 1", "x\x01: 1", "x: \x01", "\xc3: 1"}) {
    EXPECT_TRUE(fails("0\r\n" + std::string(line) + "\r\n\r\n")) << line;
  }
}

TEST(ChunkedDecoder, DropsForbiddenTrailers) {
  EXPECT_EQ(decode("0\r\nContent-Length: 5\r\ngrpc-status: 0\r\n\r\n").trailers, "grpc-status=0;");
}

TEST(ChunkedDecoder, ReadsNothingAfterTheEnd) {
  const Decoding decoding = decode("0\r\n\r\n5\r\nhello\r\n0\r\n\r\n");
  EXPECT_EQ(decoding.payload, "");
  EXPECT_EQ(decoding.consumed, 5u);
}

TEST(ChunkSize, IsWrittenInHexadecimal) {
  const auto written = [](std::size_t size) {
    char line[18];
    return std::string(line, write_chunk_size(line, size));
  };
  EXPECT_EQ(written(0), "0\r\n");
  EXPECT_EQ(written(1), "1\r\n");
  EXPECT_EQ(written(15), "f\r\n");
  EXPECT_EQ(written(16), "10\r\n");
  EXPECT_EQ(written(0xdeadbeef), "deadbeef\r\n");
  EXPECT_EQ(written(~std::size_t{0}), "ffffffffffffffff\r\n");
}

}  // namespace
}  // namespace evenkeel
