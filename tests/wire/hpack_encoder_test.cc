// HpackEncoder beside nghttp2's decoder, which must read what was written.
#include "wire/hpack_encoder.h"

#include <gtest/gtest.h>

#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "evenkeel/base/rng.h"
#include "wire/hpack_decoder.h"

namespace evenkeel {
namespace {

using Pairs = std::vector<std::pair<std::string, std::string>>;

/// An encoder and the decoder of its peer.
struct Connection {
  /// Encodes a section, checks what the peer reads, and returns the block. `secret`: the fields
  /// came as never indexed.
  std::string send(const Pairs& section, bool secret = false) {
    Fields fields;
    Pairs expected;
    for (const auto& [name, value] : section) {
      fields.add(name, value, field_id(name), secret);
      expected.emplace_back(lowered(name), value);
    }
    std::string block(HpackEncoder::max_bytes(fields), '\0');
    block.resize(static_cast<std::size_t>(encoder.encode(fields, block.data()) - block.data()));
    const HpackDecoder::Section read = decoder.decode(block);
    EXPECT_EQ(read.fields, expected);
    never_indexed = read.never_indexed;
    return block;
  }
  void limit_table(std::uint32_t bytes) {
    encoder.limit_table(bytes);
    decoder.limit_table(bytes);
  }
  static std::string lowered(std::string name) {
    for (char& c : name) {
      if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + 32);
    }
    return name;
  }

  HpackEncoder encoder;
  HpackDecoder decoder;
  std::vector<std::string> never_indexed;
};

TEST(HpackEncoder, WritesFieldsOfTheStaticTableAsOneByte) {
  Connection connection;
  EXPECT_EQ(connection.send({{":status", "200"}}), "\x88");
  EXPECT_EQ(connection.send({{":status", "500"}}), "\x8e");
  EXPECT_EQ(connection.send({{":method", "GET"}, {":scheme", "http"}, {":path", "/"}}),
            "\x82\x86\x84");
  EXPECT_EQ(connection.send({{":method", "POST"}, {":scheme", "https"}, {":path", "/index.html"}}),
            "\x83\x87\x85");
  EXPECT_EQ(connection.decoder.table_bytes(), 0u);
}

TEST(HpackEncoder, WritesNamesOfTheStaticTableAsTheirIndex) {
  const char* names[] = {"accept-charset",
                         "accept-encoding",
                         "accept-language",
                         "accept-ranges",
                         "accept",
                         "access-control-allow-origin",
                         "age",
                         "allow",
                         "authorization",
                         "cache-control",
                         "content-disposition",
                         "content-encoding",
                         "content-language",
                         "content-length",
                         "content-location",
                         "content-range",
                         "content-type",
                         "cookie",
                         "date",
                         "etag",
                         "expect",
                         "expires",
                         "from",
                         "host",
                         "if-match",
                         "if-modified-since",
                         "if-none-match",
                         "if-range",
                         "if-unmodified-since",
                         "last-modified",
                         "link",
                         "location",
                         "max-forwards",
                         "proxy-authenticate",
                         "proxy-authorization",
                         "range",
                         "referer",
                         "refresh",
                         "retry-after",
                         "server",
                         "set-cookie",
                         "strict-transport-security",
                         "transfer-encoding",
                         "user-agent",
                         "vary",
                         "via",
                         "www-authenticate",
                         ":status",
                         ":path",
                         ":authority",
                         ":method",
                         ":scheme"};
  for (const char* name : names) {
    Connection connection;
    EXPECT_LE(connection.send({{name, "x1"}}).size(), 5u) << name;
    EXPECT_EQ(connection.decoder.table_bytes(), 0u) << name;
  }
}

TEST(HpackEncoder, EntersAValueIntoTheTableWhenItIsSentAgain) {
  Connection connection;
  const Pairs section = {{"Content-Type", "application/json"}};
  EXPECT_EQ(connection.send(section).size(), 2 + 1 + 16u);
  EXPECT_EQ(connection.decoder.table_bytes(), 0u);
  EXPECT_EQ(connection.send(section).size(), 1 + 1 + 16u);
  EXPECT_EQ(connection.decoder.table_bytes(), 12 + 16 + 32u);
  EXPECT_EQ(connection.send(section), "\xbe");
}

TEST(HpackEncoder, EntersANameThatTheStaticTableLacksAtOnce) {
  Connection connection;
  EXPECT_EQ(connection.send({{"X-Model", "a"}}).size(), 1 + 8 + 2u);
  EXPECT_EQ(connection.send({{"x-model", "a"}}), "\xbe");
  EXPECT_EQ(connection.send({{"x-model", "b"}}).size(), 2 + 2u);
  EXPECT_EQ(connection.decoder.table_bytes(), 8 + 32u);
}

TEST(HpackEncoder, LetsValuesThatNeverRepeatPushOutNoOthers) {
  Connection connection;
  const auto section = [](int i) {
    const std::string number = std::to_string(1000 + i);
    return Pairs{{":path", "/v1/items/" + number},
                 {"x-request-id", "0123456789abcdef0123456789ab" + number},
                 {"traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b716920" + number},
                 {"content-length", "300"},
                 {"etag", number},
                 {"server", "uvicorn"},
                 {"x-custom", "the same"}};
  };
  for (int i = 0; i < 2; ++i) connection.send(section(i));
  const std::size_t table = connection.decoder.table_bytes();
  for (int i = 2; i < 500; ++i) connection.send(section(i));
  EXPECT_EQ(connection.decoder.table_bytes(), table);
  // Two names and two fields of the table; the rest are values.
  EXPECT_EQ(connection.send(section(500)).size(), 16 + 35 + 55 + 6 + 7 + 1 + 1u);
}

TEST(HpackEncoder, NeverIndexesSecrets) {
  Connection connection;
  const Pairs section = {
      {"authorization", "Bearer 1"}, {"proxy-authorization", "Basic 2"}, {"cookie", "short=1"}};
  for (int i = 0; i < 4; ++i) {
    connection.send(section);
    EXPECT_EQ(connection.never_indexed,
              (std::vector<std::string>{"authorization", "proxy-authorization", "cookie"}));
  }
  EXPECT_EQ(connection.decoder.table_bytes(), 0u);
  for (const char* name : {"x-api-key", "API-Key", "x-goog-api-key", "Ocp-Apim-Subscription-Key"}) {
    for (int i = 0; i < 3; ++i) connection.send({{name, "k1"}});
    EXPECT_EQ(connection.never_indexed.size(), 1u) << name;
  }
  for (int i = 0; i < 3; ++i) {
    connection.send({{"sec-websocket-protocol", "realtime, openai-insecure-api-key.k1"}});
    EXPECT_EQ(connection.never_indexed.size(), 1u);
  }
  EXPECT_EQ(connection.decoder.table_bytes(), 0u);
  connection.send({{"sec-websocket-protocol", "realtime"}});
  EXPECT_TRUE(connection.never_indexed.empty());
  connection.send({{"cookie", "long=0123456789abcdef0123"}, {"server", "x"}});
  EXPECT_TRUE(connection.never_indexed.empty());
}

TEST(HpackEncoder, KeepsFieldsNeverIndexedThatCameSo) {
  Connection connection;
  const Pairs section = {{":path", "/"}, {"X-Api-Key", "k1"}, {"etag", "e"}, {"content-type", "t"}};
  for (int i = 0; i < 3; ++i) {
    connection.send(section, true);
    EXPECT_EQ(connection.never_indexed,
              (std::vector<std::string>{":path", "x-api-key", "etag", "content-type"}));
  }
  EXPECT_EQ(connection.decoder.table_bytes(), 0u);
  connection.send(section);
  connection.send(section, true);  // the table has them now
  EXPECT_EQ(connection.never_indexed.size(), section.size());
}

TEST(HpackEncoder, KeepsToThePeersLimit) {
  Connection connection;
  const Pairs section = {{"x-first", std::string(100, 'a')}, {"x-second", "b"}};
  connection.send(section);
  connection.limit_table(60);  // room for the second
  connection.send(section);
  EXPECT_LE(connection.decoder.table_bytes(), 60u);
  connection.limit_table(0);
  const std::string plain = connection.send(section);
  EXPECT_EQ(plain.front(), '\x20') << "the new size";
  EXPECT_EQ(connection.decoder.table_bytes(), 0u);
  EXPECT_EQ(connection.send(section), plain.substr(1));
  connection.limit_table(1 << 20);
  connection.send(section);
  EXPECT_EQ(connection.decoder.table_bytes(), 7 + 100 + 32 + 8 + 1 + 32u);
}

TEST(HpackEncoder, SaysThatTheTableWasSmallerInBetween) {
  Connection connection;
  connection.send({{"x-model", "a"}});
  connection.limit_table(0);
  connection.limit_table(4096);
  EXPECT_EQ(connection.send({{"x-model", "a"}}).substr(0, 4), "\x20\x3f\xe1\x1f");
  EXPECT_EQ(connection.send({{"x-model", "a"}}), "\xbe");
}

TEST(HpackEncoder, SaysNothingOfALimitThatChangesNothing) {
  Connection connection;
  connection.limit_table(64 * 1024);
  EXPECT_EQ(connection.send({{":status", "200"}}), "\x88");
}

TEST(HpackEncoder, WritesValuesThatAreLargerThanTheTable) {
  Connection connection;
  const Pairs section = {{"x-large", std::string(60'000, 'v')}, {std::string(5000, 'n'), ""}};
  for (int i = 0; i < 3; ++i) connection.send(section);
  EXPECT_EQ(connection.decoder.table_bytes(), 0u);
}

TEST(HpackEncoder, IsReadableWhateverIsSent) {
  Rng rng(7);
  const char* names[] = {":path",         "date",   "server",        "x-a",
                         "X-A-B",         "x_a-b",  "content-type",  "cookie",
                         "authorization", "x-long", "vary",          "grpc-status",
                         "x-request-id",  "etag",   "content-length"};
  for (int run = 0; run < 20; ++run) {
    Connection connection;
    const std::uint32_t values = 1 + rng.below(60);  // that there are of each name
    for (int i = 0; i < 400; ++i) {
      Pairs section;
      for (std::uint32_t left = rng.below(12); left > 0; --left) {
        const char* name = names[rng.below(static_cast<std::uint32_t>(std::size(names)))];
        const std::uint32_t value = rng.below(values);
        section.emplace_back(name, std::string(value * value % 300, 'v') + std::to_string(value));
      }
      connection.send(section, rng.below(8) == 0);
      for (std::uint32_t left = rng.below(60); left >= 58; --left) {
        connection.limit_table(rng.below(3) * rng.below(3000));
      }
      if (HasFailure()) return;
    }
  }
}

}  // namespace
}  // namespace evenkeel
