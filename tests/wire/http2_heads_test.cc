// The header blocks that a backend connection of HTTP/2 writes, as its peer reads them.
#include <gtest/gtest.h>
#include <nghttp2/nghttp2.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "evenkeel/wire/link.h"
#include "wire/hpack_decoder.h"
#include "wire/http2_server_end.h"
#include "wire/peer.h"

namespace evenkeel {
namespace {

using Pair = std::pair<std::string, std::string>;

/// The header blocks among the frames that a client has sent, each with the sizes of its frames.
struct Blocks {
  struct Block {
    std::uint32_t stream = 0;
    std::string bytes;
    std::vector<std::size_t> frames;
    bool complete = false;
  };

  explicit Blocks(std::string_view sent) {
    sent.remove_prefix(24);  // the preface
    const auto byte = [&sent](std::size_t at) { return static_cast<std::uint8_t>(sent[at]); };
    while (sent.size() >= 9) {
      const std::size_t size = std::size_t{byte(0)} << 16 | std::size_t{byte(1)} << 8 | byte(2);
      if (sent.size() < 9 + size) return;
      const bool headers = byte(3) == NGHTTP2_HEADERS;
      if (!all.empty() && !all.back().complete) {
        EXPECT_EQ(byte(3), NGHTTP2_CONTINUATION) << "nothing comes between the parts of a block";
      }
      if (headers) all.push_back({.stream = byte(8)});
      if (headers || byte(3) == NGHTTP2_CONTINUATION) {
        EXPECT_EQ(all.back().stream, byte(8));
        all.back().bytes.append(sent.substr(9, size));
        all.back().frames.push_back(size);
        all.back().complete = (byte(4) & NGHTTP2_FLAG_END_HEADERS) != 0;
      }
      sent.remove_prefix(9 + size);
    }
  }

  std::vector<Block> all;
};

class Http2HeadsTest : public testing::Test {
 protected:
  struct Call {
    Request request{.method = "GET", .authority = "a.example", .path = "/v1/models"};
    Task<Result<Response>> running;
  };

  void SetUp() override {
    const SocketPair ends = connected_pair();
    peer = std::make_unique<Peer>(loop, ends.theirs);
    backend = std::make_unique<Http2ServerEnd>(*peer);
    auto opening = open_http2_link(std::make_unique<Socket>(loop, ends.ours), {}, never);
    backend->accept();
    ASSERT_TRUE(eventually(loop, [&] { return opening.ready(); }));
    auto opened = opening.take();
    ASSERT_TRUE(opened.ok());
    link = std::move(*opened);
  }
  Call& start() {
    Call& call = *calls.emplace_back(std::make_unique<Call>());
    call.request.fields.add("x-client", "the same");
    call.running = link->send(call.request);
    return call;
  }
  std::vector<Blocks::Block> blocks(std::size_t count) {
    EXPECT_TRUE(eventually(loop, [&] {
      const auto all = Blocks(peer->seen()).all;
      return all.size() == count && all.back().complete;
    }));
    return Blocks(peer->seen()).all;
  }

  Loop loop;
  std::unique_ptr<Peer> peer;
  std::unique_ptr<Http2ServerEnd> backend;
  std::unique_ptr<Link> link;
  HpackDecoder decoder;
  std::vector<std::unique_ptr<Call>> calls;  // the last member: they end before the link
};

TEST_F(Http2HeadsTest, RefersToWhatWasSentBefore) {
  start();
  start();
  const auto sent = blocks(2);
  const std::vector<Pair> expected = {{":method", "GET"},
                                      {":scheme", "http"},
                                      {":authority", "a.example"},
                                      {":path", "/v1/models"},
                                      {"x-client", "the same"}};
  EXPECT_EQ(decoder.decode(sent[0].bytes).fields, expected);
  EXPECT_EQ(decoder.decode(sent[1].bytes).fields, expected);
  EXPECT_LT(sent[1].bytes.size(), sent[0].bytes.size());
}

TEST_F(Http2HeadsTest, LeavesOutARequestThatIsDroppedBeforeItIsWritten) {
  start();
  start();
  calls.erase(calls.begin());
  start();
  const auto sent = blocks(2);
  EXPECT_EQ(sent[0].stream, 3u);
  EXPECT_EQ(decoder.decode(sent[0].bytes).fields.size(), 5u);
  EXPECT_EQ(decoder.decode(sent[1].bytes).fields.back(), Pair("x-client", "the same"));
}

TEST_F(Http2HeadsTest, SplitsABlockThatIsLargerThanAFrame) {
  const std::string large(60'000, 'v');
  const std::string exact(16'000, 'w');
  start();
  auto& call = *calls.emplace_back(std::make_unique<Call>());
  call.request.fields.add("x-large", large);
  call.running = link->send(call.request);
  auto& second = *calls.emplace_back(std::make_unique<Call>());
  second.request.fields.add("x-exact", exact);
  second.running = link->send(second.request);
  start();
  const auto sent = blocks(4);
  EXPECT_EQ(sent[0].frames.size(), 1u);
  EXPECT_EQ(sent[1].frames.size(), 4u);
  EXPECT_EQ(sent[1].frames.front(), 16'384u);
  EXPECT_EQ(sent[2].frames.size(), 1u);
  EXPECT_EQ(decoder.decode(sent[0].bytes).fields.size(), 5u);
  EXPECT_EQ(decoder.decode(sent[1].bytes).fields.back(), Pair("x-large", large));
  EXPECT_EQ(decoder.decode(sent[2].bytes).fields.back(), Pair("x-exact", exact));
  EXPECT_EQ(decoder.decode(sent[3].bytes).fields.back(), Pair("x-client", "the same"));
}

TEST_F(Http2HeadsTest, KeepsToTheTableThatTheBackendAllows) {
  start();
  decoder.decode(blocks(1)[0].bytes);
  const auto setting = [](std::string_view value) {
    return std::string("\0\x1\0\0", 4).append(value);
  };
  // Twice in one frame: first the table is emptied.
  backend->send(Http2ServerEnd::settings, 0, 0,
                setting(std::string_view("\0\0", 2)) + setting(std::string_view("\x8\0", 2)));
  const auto settings_acknowledged = [&] {
    backend->frames();
    std::size_t found = 0;
    for (const auto& frame : backend->frames()) {
      found += frame.type == Http2ServerEnd::settings && frame.flags == 1;
    }
    return found == 2;
  };
  ASSERT_TRUE(eventually(loop, settings_acknowledged));
  start();
  start();
  const auto sent = blocks(3);
  EXPECT_EQ(sent[1].bytes.substr(0, 4), "\x20\x3f\xe1\x0f");
  decoder.limit_table(0);
  decoder.limit_table(2048);
  EXPECT_EQ(decoder.decode(sent[1].bytes).fields.size(), 5u);
  EXPECT_EQ(decoder.decode(sent[2].bytes).fields.size(), 5u);
}

}  // namespace
}  // namespace evenkeel
