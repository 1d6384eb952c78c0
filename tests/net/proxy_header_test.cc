#include "evenkeel/net/proxy_header.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "wire/peer.h"

namespace evenkeel {
namespace {

using namespace std::chrono_literals;
using Step = ProxyHeader::Step;

const std::string signature("\r\n\r\n\0\r\nQUIT\n", 12);

std::string binary(unsigned char command, unsigned char family, const std::string& rest) {
  std::string header = signature;
  header += static_cast<char>(command);
  header += static_cast<char>(family);
  header += static_cast<char>(rest.size() >> 8);
  header += static_cast<char>(rest.size() & 0xff);
  return header + rest;
}

const std::string four("\xc0\x00\x02\x07\xc0\x00\x02\x09\xc7\x38\x01\xbb", 12);
const std::string six = std::string("\x20\x01\x0d\xb8", 4) + std::string(11, '\0') + '\x07' +
                        std::string("\x20\x01\x0d\xb8", 4) + std::string(11, '\0') + '\x09' +
                        std::string("\xc7\x38\x01\xbb", 4);

std::string source_of(const ProxyHeader& header) {
  return header.source ? header.source->text() : "the peer";
}

TEST(ProxyHeader, NamesTheClient) {
  struct Case {
    std::string header;
    std::string source;
  };
  const std::string extension(
      "\x03\x00\x04"
      "abcd",
      7);
  const Case cases[] = {
      {"PROXY TCP4 192.0.2.7 192.0.2.9 51000 443\r\n", "192.0.2.7:51000"},
      {"PROXY TCP6 2001:db8::7 2001:db8::9 51000 443\r\n", "[2001:db8::7]:51000"},
      {"PROXY TCP6 ffff:f...f:ffff ffff:f...f:ffff 65535 65535\r\n", ""},
      {"PROXY UNKNOWN\r\n", "the peer"},
      {"PROXY UNKNOWN ffff:f...f:ffff whatever 65535 65535\r\n", "the peer"},
      {binary(0x21, 0x11, four), "192.0.2.7:51000"},
      {binary(0x21, 0x11, four + extension), "192.0.2.7:51000"},
      {binary(0x21, 0x21, six), "[2001:db8::7]:51000"},
      {binary(0x21, 0x31, std::string(216, 'a')), "the peer"},
      {binary(0x21, 0x00, ""), "the peer"},
      {binary(0x21, 0x00, "anything"), "the peer"},
      {binary(0x20, 0x00, ""), "the peer"},
      {binary(0x20, 0x11, "short"), "the peer"},
  };
  for (const auto& [header, source] : cases) {
    if (source.empty()) {
      EXPECT_EQ(parse_proxy_header(header).step, Step::failed) << header;
      continue;
    }
    const auto parsed = parse_proxy_header(header + "GET / HTTP/1.1\r\n");
    ASSERT_EQ(parsed.step, Step::done) << header;
    EXPECT_EQ(parsed.size, header.size()) << header;
    EXPECT_EQ(source_of(parsed), source) << header;
    for (std::size_t size = 0; size < header.size(); ++size) {
      EXPECT_EQ(parse_proxy_header(header.substr(0, size)).step, Step::more) << header << size;
    }
  }
}

TEST(ProxyHeader, RejectsInvalidHeaders) {
  const std::string cut_extension(
      "\x03\x00\x05"
      "abcd",
      7);
  const std::string headers[] = {
      "GET / HTTP/1.1\r\n",
      "\x16\x03\x01",
      "proxy TCP4 192.0.2.7 192.0.2.9 51000 443\r\n",
      "PROXY TCP4 192.0.2.7 192.0.2.9 51000 443 \r\n",
      "PROXY TCP4 192.0.2.7 192.0.2.9 51000\r\n",
      "PROXY  TCP4 192.0.2.7 192.0.2.9 51000 443\r\n",
      "PROXY TCP4 192.0.2.7 192.0.2.9 051000 443\r\n",
      "PROXY TCP4 192.0.2.7 192.0.2.9 65536 443\r\n",
      "PROXY TCP4 192.0.2.7 192.0.2.9 51000 -1\r\n",
      "PROXY TCP4 192.0.2.7 192.0.2.256 51000 443\r\n",
      "PROXY TCP4 2001:db8::7 2001:db8::9 51000 443\r\n",
      "PROXY TCP6 192.0.2.7 192.0.2.9 51000 443\r\n",
      "PROXY UDP4 192.0.2.7 192.0.2.9 51000 443\r\n",
      "PROXY TCP4 localhost 192.0.2.9 51000 443\r\n",
      "PROXY \r\n",
      "PROXY TCP4 192.0.2.7 192.0.2.9 51000 443\n" + std::string(70, 'x') + "\r\n",
      "PROXY UNKNOWN " + std::string(107, 'x') + "\r\n",
      binary(0x11, 0x11, four),                // version 1 in the format of version 2
      binary(0x22, 0x11, four),                // an unknown command
      binary(0x21, 0x12, four),                // datagrams
      binary(0x21, 0x41, four),                // an unknown family
      binary(0x21, 0x11, four.substr(0, 11)),  // shorter than its addresses
      binary(0x21, 0x21, four),
      binary(0x21, 0x11, four + cut_extension),
      binary(0x21, 0x11, four + "\x03"),
      binary(0x21, 0x11, four + std::string(20'000, 'x')),
  };
  for (const std::string& header : headers) {
    EXPECT_EQ(parse_proxy_header(header).step, Step::failed) << header;
  }
}

class ProxyConnections : public testing::Test {
 protected:
  ~ProxyConnections() override { reading.drop(); }
  void begin(Instant deadline = Clock::now() + 20s) {
    const SocketPair ends = connected_pair();
    socket = std::make_unique<Socket>(loop, ends.ours);
    peer = std::make_unique<Peer>(loop, ends.theirs);
    reading = read_proxy_header(*socket, resolve("198.51.100.1", 4000)->front(), deadline);
  }
  bool ended() {
    return eventually(loop, [&] { return reading.ready(); });
  }

  Loop loop;
  std::unique_ptr<Socket> socket;
  std::unique_ptr<Peer> peer;
  Task<Result<Endpoint>> reading;
};

TEST_F(ProxyConnections, ConsumeExactlyTheHeader) {
  begin();
  peer->send("PROXY TCP4 192.0.2.7 192.0.2.9 51000 443\r\nGET /");
  ASSERT_TRUE(ended());
  auto client = reading.take();
  ASSERT_TRUE(client);
  EXPECT_EQ(client->text(), "192.0.2.7:51000");
  char bytes[100];
  const auto got = socket->read_some(bytes, sizeof bytes);
  EXPECT_EQ(std::string(bytes, got.size), "GET /");
}

TEST_F(ProxyConnections, MayStartByteByByte) {
  begin();
  const std::string header = binary(0x21, 0x21, six);
  for (const char byte : header) {
    EXPECT_FALSE(reading.ready());
    peer->send({&byte, 1});
    drain_loop(loop, 2);
  }
  ASSERT_TRUE(ended());
  EXPECT_EQ(reading.take()->text(), "[2001:db8::7]:51000");
}

TEST_F(ProxyConnections, KeepThePeerWithoutASource) {
  begin();
  peer->send(binary(0x20, 0x00, ""));
  ASSERT_TRUE(ended());
  EXPECT_EQ(reading.take()->text(), "198.51.100.1:4000");
}

TEST_F(ProxyConnections, EndWithoutAValidHeader) {
  begin();
  peer->send("GET / HTTP/1.1\r\n\r\n");
  ASSERT_TRUE(ended());
  EXPECT_EQ(reading.take().error().fault, Fault::bad_request);

  begin();
  peer->send("PROXY TCP4 ");
  peer->finish_sending();
  ASSERT_TRUE(ended());
  EXPECT_EQ(reading.take().error().fault, Fault::client_gone);

  begin(Clock::now() + 100ms);
  peer->send("PROXY TCP4 ");
  ASSERT_TRUE(ended());
  EXPECT_EQ(reading.take().error().fault, Fault::header_timeout);
}

}  // namespace
}  // namespace evenkeel
