// Known attacks (Http11Probe's cases by their ids, HTTP Garden's payloads, PortSwigger's
// permutations) through the whole chain. Checks the client's responses and exactly which requests
// the backend receives. Nothing may be smuggled: a message is either refused together with all that
// follows it, or understood by both sides in the same way.
#include <gtest/gtest.h>

#include <algorithm>
#include <charconv>
#include <string>
#include <vector>

#include "proxy/chain.h"

namespace evenkeel {
namespace {

using namespace std::chrono_literals;

/// The requests that a naive server reads from its connections; it answers each complete one at
/// once. Written against RFC 9112 alone, for messages in the one form in which evenkeel sends them.
class NaiveServer {
 public:
  explicit NaiveServer(ScriptedServer& server) : server_(server) {}

  /// Reads and answers; `requests` has "METHOD target body" of every complete request.
  void serve() {
    for (; unread_.size() < server_.connections(); unread_.emplace_back()) {
    }
    for (std::size_t i = 0; i < unread_.size(); ++i) {
      Peer& peer = server_.connection(i);
      unread_[i] += peer.seen();
      peer.seen().clear();
      while (read_one(unread_[i])) {
        const bool head = requests.back().starts_with("HEAD ");
        peer.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n" + std::string(head ? "" : "ok"));
      }
    }
  }
  /// Bytes of incomplete requests.
  std::string rest() const {
    std::string all;
    for (const auto& unread : unread_) all += unread;
    return all;
  }

  std::vector<std::string> requests;
  std::vector<std::string> heads;

 private:
  bool read_one(std::string& bytes) {
    const auto end = bytes.find("\r\n\r\n");
    if (end == std::string::npos) return false;
    const std::string head = bytes.substr(0, end + 4);
    std::size_t at = end + 4;
    std::string body;
    if (const auto sized = head.find("\r\ncontent-length: "); sized != std::string::npos) {
      const std::size_t length = std::stoul(head.substr(sized + 18));
      if (bytes.size() - at < length) return false;
      body = bytes.substr(at, length);
      at += length;
    } else if (head.find("\r\ntransfer-encoding: chunked\r\n") != std::string::npos) {
      while (true) {
        const auto line = bytes.find("\r\n", at);
        if (line == std::string::npos) return false;
        const std::size_t size = std::stoul(bytes.substr(at, line - at), nullptr, 16);
        at = line + 2;
        if (size == 0) break;
        if (bytes.size() - at < size + 2) return false;
        body += bytes.substr(at, size);
        at += size + 2;
      }
      while (true) {  // trailers
        const auto line = bytes.find("\r\n", at);
        if (line == std::string::npos) return false;
        const std::string trailer = bytes.substr(at, line - at);
        at = line + 2;
        if (trailer.empty()) break;
        body += "[" + trailer + "]";
      }
    }
    requests.push_back(head.substr(0, head.find(" HTTP/1.1\r\n")) + " " + body);
    heads.push_back(plain(head));
    bytes.erase(0, at);
    return true;
  }

  ScriptedServer& server_;
  std::vector<std::string> unread_;
};

/// The result of sending some bytes.
struct Outcome {
  std::vector<int> statuses;          // of the responses, in order
  bool closed = false;                // by evenkeel
  std::vector<std::string> requests;  // complete ones, as the server read them
  std::vector<std::string> heads;
  std::string rest;  // of a request that was not completed

  std::string summary() const {
    std::string text;
    for (const int status : statuses) text += std::to_string(status) + " ";
    text += closed ? "closed;" : "open;";
    for (const auto& request : requests) text += " <" + request + ">";
    return text;
  }
};

class Attack : public Chain {
 protected:
  Attack() {
    options.timeouts.body = 100ms;
    options.timeouts.header = 100ms;
  }

  /// Sends the bytes and waits for `answers` final answers, or the end.
  Outcome send(std::string_view bytes, std::size_t answers) {
    Outcome outcome;
    ScriptedServer own(loop);
    config.pools[0].backends = {{.address = own.address()}};
    build();
    NaiveServer naive(own);
    auto client = connect();
    std::string got;
    EXPECT_TRUE(eventually(loop, [&] {
      client->send_some(bytes);
      naive.serve();
      got += client->seen();
      client->seen().clear();
      outcome.statuses = statuses_of(got);
      return client->ended() || (bytes.empty() && outcome.statuses.size() >= answers);
    }));
    drain_loop(loop);
    naive.serve();
    drain_loop(loop);
    got += client->seen();
    outcome.statuses = statuses_of(got);
    outcome.closed = client->ended();
    outcome.requests = naive.requests;
    outcome.heads = naive.heads;
    outcome.rest = naive.rest();
    client->close();
    EXPECT_TRUE(eventually(loop, [&] { return loop.spawned() == 0; }));
    EXPECT_TRUE(at_rest());
    host.handler.reset();
    return outcome;
  }

  static std::vector<int> statuses_of(std::string_view answers) {
    std::vector<int> statuses;
    for (auto at = answers.find("HTTP/1.1 "); at != std::string_view::npos;
         at = answers.find("HTTP/1.1 ", at + 1)) {
      int status = 0;  // stays 0 where a text only speaks of HTTP/1.1
      const char* digits = answers.data() + std::min(at + 9, answers.size());
      std::from_chars(digits, answers.data() + std::min(at + 12, answers.size()), status);
      if (status >= 200) statuses.push_back(status);
    }
    return statuses;
  }

  /// Refused once with this status and closed; the server receives nothing.
  void expect_refused(int status, std::string_view id, const std::string& bytes) {
    SCOPED_TRACE(std::string(id));
    const Outcome outcome = send(bytes + std::string(smuggled), 2);
    EXPECT_EQ(outcome.summary(), std::to_string(status) + " closed;") << bytes;
    EXPECT_EQ(outcome.rest, "") << bytes;
  }
  /// Refused while it is forwarded: the server receives an incomplete request.
  void expect_cut_off(int status, std::string_view id, const std::string& bytes) {
    SCOPED_TRACE(std::string(id));
    const Outcome outcome = send(bytes, 2);
    EXPECT_EQ(outcome.summary(), std::to_string(status) + " closed;") << bytes;
  }
  /// Understood as these requests; each is answered.
  void expect_understood(std::string_view id, const std::string& bytes,
                         const std::vector<std::string>& requests) {
    SCOPED_TRACE(std::string(id));
    const Outcome outcome = send(bytes, requests.size());
    EXPECT_EQ(outcome.statuses, std::vector<int>(requests.size(), 200)) << bytes;
    EXPECT_EQ(outcome.requests, requests) << bytes;
    EXPECT_EQ(outcome.rest, "") << bytes;
  }

  static constexpr std::string_view smuggled = "GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n";
};

std::string post(std::string_view fields, std::string_view body) {
  return "POST /p HTTP/1.1\r\nHost: a\r\n" + std::string(fields) + "\r\n" + std::string(body);
}

TEST_F(Attack, WithLengthAndCodingAtOnceIsRefused) {
  const std::string length = "Content-Length: 6\r\n";
  const std::string coding = "Transfer-Encoding: chunked\r\n";
  const std::string body = "0\r\n\r\nG";
  expect_refused(400, "SMUG-CL-TE-BOTH", post(length + coding, body));
  expect_refused(400, "SMUG-TECL-DESYNC", post(coding + length, body));
  expect_refused(400, "SMUG-CLTE-CONN-CLOSE",
                 post("Connection: close\r\n" + length + coding, body));
  expect_refused(400, "SMUG-CLTE-CL-PLUS", post("Content-Length: +6\r\n" + coding, body));
  expect_refused(400, "SMUG-CLTE-CL-NON-NUMERIC", post("Content-Length: N\r\n" + coding, body));
  expect_refused(400, "SMUG-CLTE-TE-CASE-MISMATCH",
                 post(length + "Transfer-Encoding: Chunked\r\n", body));
  expect_refused(400, "SMUG-CLTE-TE-LEADING-COMMA",
                 post(length + "Transfer-Encoding: , chunked\r\n", body));
  expect_refused(400, "SMUG-CLTE-TE-OBS-FOLD",
                 post(length + "Transfer-Encoding:\r\n chunked\r\n", body));
  expect_refused(400, "SMUG-CLTE-TE-TRAILING-SPACE",
                 post(length + "Transfer-Encoding: chunked \r\n", body));
  expect_refused(400, "SMUG-CLTE-SMUGGLED-GET",
                 post("Content-Length: 4\r\n" + coding, "0\r\n\r\n"));
  expect_refused(
      400, "SMUG-CLTE-SMUGGLED-HEAD",
      post("Content-Length: 4\r\n" + coding, "0\r\n\r\nHEAD / HTTP/1.1\r\nHost: a\r\n\r\n"));
  expect_refused(400, "SMUG-CL-TE-UNKNOWN", post(length + "Transfer-Encoding: x\r\n", body));
}

TEST_F(Attack, WithALengthThatIsNoPlainNumberIsRefused) {
  for (const std::string_view value : {"",
                                       "5, 5",
                                       "5,5",
                                       "5,6",
                                       "5, 6",
                                       "5, 5, 5",
                                       "-5",
                                       "-0",
                                       "+5",
                                       "0x5",
                                       "05",
                                       "005",
                                       "00",
                                       "5 0",
                                       "1_0",
                                       "5.0",
                                       "5e0",
                                       "99999999999999999999999",
                                       "18446744073709551621",
                                       ",5",
                                       "5,",
                                       "5-",
                                       "5 5",
                                       "'5'",
                                       "\"5\"",
                                       "5\x0b",
                                       "five",
                                       "5;",
                                       "\xd9\xa5"}) {
    if (value.find('\x0b') != std::string_view::npos) continue;  // a control character: below
    expect_refused(400, "CL " + std::string(value),
                   post("Content-Length: " + std::string(value) + "\r\n", "hello"));
  }
  expect_refused(400, "SMUG-DUPLICATE-CL",
                 post("Content-Length: 5\r\nContent-Length: 6\r\n", "hello"));
  expect_refused(400, "SMUG-DUPLICATE-CL-SAME",
                 post("Content-Length: 5\r\nContent-Length: 5\r\n", "hello"));
  expect_refused(400, "SMUG-CL-VT", post("Content-Length: 5\x0b\r\n", "hello"));
  expect_refused(400, "SMUG-CL-NAME-SPACE", post("Content-Length : 5\r\n", "hello"));
  expect_refused(400, "SMUG-CL-NAME-HIGH", post("Content-Length\x85: 5\r\n", "hello"));
  expect_refused(400, "SMUG-CL-LEADING-SPACE",
                 "POST /p HTTP/1.1\r\n Content-Length: 5\r\nHost: a\r\n\r\nhello");
}

TEST_F(Attack, WithHarmlessWhitespaceIsUnderstoodAndWrittenAnew) {
  for (const std::string_view value : {"  5", "\t5", "5 ", "5\t ", "5"}) {
    const Outcome outcome = send(
        post("Content-Length:" + std::string(value) + "\r\n", "hello") + std::string(smuggled), 2);
    EXPECT_EQ(outcome.summary(), "200 200 open; <POST /p hello> <GET /smuggled >") << value;
    EXPECT_EQ(outcome.heads[0], "POST /p HTTP/1.1\r\nhost: a\r\ncontent-length: 5\r\n\r\n")
        << value;
  }
  for (const std::string_view value :
       {"chunked", "Chunked", "CHUNKED", "\tchunked", "chunked\t", " chunked  "}) {
    const Outcome outcome =
        send(post("Transfer-Encoding:" + std::string(value) + "\r\n", "5\r\nhello\r\n0\r\n\r\n") +
                 std::string(smuggled),
             2);
    EXPECT_EQ(outcome.summary(), "200 200 open; <POST /p hello> <GET /smuggled >") << value;
    EXPECT_EQ(outcome.heads[0], "POST /p HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n")
        << value;
  }
}

TEST_F(Attack, WithACodingThatIsNotChunkedAloneIsRefused) {
  struct Case {
    std::string_view id;
    std::string_view fields;
    int status = 400;
  };
  const Case cases[] = {
      {"SMUG-TE-XCHUNKED", "Transfer-Encoding: xchunked\r\n", 501},
      {"SMUG-TE-GZIP", "Transfer-Encoding: gzip\r\n", 501},
      {"SMUG-TE-IDENTITY", "Transfer-Encoding: identity\r\n"},
      {"SMUG-TE-EMPTY-VALUE", "Transfer-Encoding: \r\n"},
      {"SMUG-TE-DUPLICATE-HEADERS",
       "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n"},
      {"SMUG-TE-DUPLICATE-SAME", "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"},
      {"SMUG-TE-DOUBLE-CHUNKED", "Transfer-Encoding: chunked, chunked\r\n"},
      {"SMUG-TE-NOT-FINAL-CHUNKED", "Transfer-Encoding: chunked, gzip\r\n"},
      {"SMUG-TE-GZIP-CHUNKED", "Transfer-Encoding: gzip, chunked\r\n"},
      {"SMUG-TE-SP-BEFORE-COLON", "Transfer-Encoding : chunked\r\n"},
      {"SMUG-TE-TAB-BEFORE-COLON", "Transfer-Encoding\t: chunked\r\n"},
      {"SMUG-TE-VTAB",
       "Transfer-Encoding: \x0b"
       "chunked\r\n"},
      {"SMUG-TE-FORMFEED",
       "Transfer-Encoding: \x0c"
       "chunked\r\n"},
      {"SMUG-TE-NULL", {"Transfer-Encoding: chunked\0\r\n", 29}},
      {"SMUG-TE-OBS-FOLD", "Transfer-Encoding:\r\n chunked\r\n"},
      {"SMUG-TE-LEADING-COMMA", "Transfer-Encoding: ,chunked\r\n"},
      {"SMUG-TE-TRAILING-COMMA", "Transfer-Encoding: chunked,\r\n"},
      {"SMUG-CHUNKED-WITH-PARAMS", "Transfer-Encoding: chunked;ext=val\r\n"},
      {"PS-nameprefix1", " Transfer-Encoding: chunked\r\n"},
      {"PS-vertwrap",
       "Transfer-Encoding: \n\x0b"
       "chunked\r\n"},
      {"PS-0dwrap", "Foo: bar\r\n\rTransfer-Encoding: chunked\r\n"},
      {"PS-spjunk", "Transfer-Encoding x: chunked\r\n"},
      {"PS-backslash", "Transfer\\Encoding: chunked\r\n"},
      {"PS-unispace",
       "Transfer-Encoding: \xa0"
       "chunked\r\n"},
      {"PS-nospace1-high", "Transfer-Encoding: chunked\xff\r\n"},
      {"PS-0dsuffix", "Transfer-Encoding: chunked\r\r\n"},
      {"PS-0dspam", "Transfer\r-Encoding: chunked\r\n"},
      {"PS-dualchunk", "Transfer-Encoding: chunked\r\nTransfer-encoding: identity\r\n"},
      {"PS-quoted", "Transfer-Encoding: \"chunked\"\r\n"},
      {"PS-badwrap", "Transfer-Encoding: x\r\n chunked\r\n"},
      {"PS-badsetupLF", "Foo: bar\nTransfer-Encoding: chunked\r\n"},
      {"PS-encode", "Transfer-Encoding: ch\x96nked\r\n"},
      {"PS-space1", "Transfer-Encoding : chunked\r\n"},
      {"PS-colon", "Transfer-Encoding:: chunked\r\n"},
      {"HG-split-name", "Transfer-\r\nEncoding: chunked\r\n"},
      {"HG-bad-name-high", "Transfer-Encoding\xa0: chunked\r\n"},
  };
  for (const auto& [id, fields, status] : cases)
    expect_refused(status, id, post(fields, "5\r\nhello\r\n0\r\n\r\n"));
  expect_refused(400, "SMUG-TE-HTTP10",
                 "POST /p HTTP/1.0\r\nHost: a\r\nConnection: keep-alive\r\nTransfer-Encoding: "
                 "chunked\r\n\r\n0\r\n\r\n");
}

TEST_F(Attack, WithNamesThatOnlyLookLikeFramingPassesWithoutThem) {
  const Outcome outcome =
      send(post("Transfer_Encoding: chunked\r\nContent_Length: 5\r\nContent-Length: 2\r\n", "hi") +
               std::string(smuggled),
           2);
  EXPECT_EQ(outcome.summary(), "200 200 open; <POST /p hi> <GET /smuggled >");
  EXPECT_EQ(outcome.heads[0], "POST /p HTTP/1.1\r\nhost: a\r\ncontent-length: 2\r\n\r\n");
}

TEST_F(Attack, WithBadChunksNeverComesToAnEnd) {
  struct Case {
    std::string_view id;
    std::string body;
  };
  const std::string zero(1, '\0');
  const Case cases[] = {
      {"SMUG-CHUNK-BARE-SEMICOLON", "5;\r\nhello\r\n0\r\n\r\n"},
      {"SMUG-CHUNK-BARE-CR-TERM", "5\rhello\r\n0\r\n\r\n"},
      {"SMUG-CHUNK-EXT-CR", "5;a\rb\r\nhello\r\n0\r\n\r\n"},
      {"SMUG-CHUNK-EXT-CTRL", "5;a" + zero + "\r\nhello\r\n0\r\n\r\n"},
      {"SMUG-CHUNK-EXT-INVALID-TOKEN", "5;[x]=y\r\nhello\r\n0\r\n\r\n"},
      {"SMUG-CHUNK-EXT-LF", "5;a\nhello\r\n0\r\n\r\n"},
      {"SMUG-CHUNK-HEX-PREFIX", "0x5\r\nhello\r\n0\r\n\r\n"},
      {"SMUG-CHUNK-INVALID-SIZE-DESYNC", "+\r\nhello\r\n0\r\n\r\n"},
      {"SMUG-CHUNK-LEADING-SP", " 5\r\nhello\r\n0\r\n\r\n"},
      {"SMUG-CHUNK-LF-TERM", "5\nhello\n0\n\n"},
      {"SMUG-CHUNK-LF-TRAILER", "5\r\nhello\r\n0\r\nx: 1\n\r\n"},
      {"SMUG-CHUNK-NEGATIVE", "-5\r\nhello\r\n0\r\n\r\n"},
      {"SMUG-CHUNK-SIZE-PLUS", "+5\r\nhello\r\n0\r\n\r\n"},
      {"SMUG-CHUNK-SIZE-TRAILING-OWS", "5 \r\nhello\r\n0\r\n\r\n"},
      {"SMUG-CHUNK-SPILL", "5\r\nhello!!\r\n0\r\n\r\n"},
      {"SMUG-CHUNK-UNDERSCORE", "0_5\r\nhello\r\n0\r\n\r\n"},
      {"MAL-CHUNK-SIZE-OVERFLOW", "ffffffffffffffffff\r\nhello\r\n0\r\n\r\n"},
      {"MAL-CHUNK-SIZE-17-DIGITS", "00000000000000005\r\nhello\r\n0\r\n\r\n"},
      {"MAL-CHUNK-EXT-64K", "5;" + std::string(65'536, 'a') + "\r\nhello\r\n0\r\n\r\n"},
      {"HG-0_2e", "0_2e\r\n" + std::string(46, 'x') + "\r\n0\r\n\r\n"},
      {"HG-cr-cr-ext", "5\r\r;ABCD\r\n34\r\nE\r\n0\r\n\r\n"},
      {"HG-these-bytes", "1these-bytes-are-ignored\r\nZ\r\n0\r\n\r\n"},
      {"HG-minus-0x0", "-0x0\r\n\r\n"},
      {"HG-space-padded", "5" + std::string(10, ' ') + "\r\nhello\r\n0\r\n\r\n"},
      {"HG-wrap-2-64", "10000000000000005\r\nhello\r\n0\r\n\r\n"},
      {"HG-nul-in-size", "5" + zero + "\r\nhello\r\n0\r\n\r\n"},
      {"SMUG-TRAILER-FOLD", "0\r\nx: 1\r\n y\r\n\r\n"},
      {"SMUG-TRAILER-NO-COLON", "0\r\nx\r\n\r\n"},
      {"SMUG-TRAILER-SP-COLON", "0\r\nx : 1\r\n\r\n"},
      {"MAL-TRAILER-LINE-64K", "0\r\nx: " + std::string(65'536, 'a') + "\r\n\r\n"},
      {"MAL-TRAILERS-20000",
       [] {
         std::string many = "0\r\n";
         for (int i = 0; i < 20'000; ++i) many += "x: 1\r\n";
         return many + "\r\n";
       }()},
  };
  for (const auto& [id, body] : cases) {
    expect_cut_off(400, id, post("Transfer-Encoding: chunked\r\n", body + std::string(smuggled)));
  }
}

TEST_F(Attack, WithTinyChunksAndLargeExtensionsIsBounded) {
  std::string body;
  for (int i = 0; i < 1000; ++i) body += "1;" + std::string(250, 'e') + "\r\nx\r\n";
  expect_cut_off(400, "chunk overhead", post("Transfer-Encoding: chunked\r\n", body + "0\r\n\r\n"));
}

TEST_F(Attack, WithAChunkThatNeverEndsRunsIntoTheTimeout) {
  expect_cut_off(408, "SMUG-CHUNK-MISSING-TRAILING-CRLF",
                 post("Transfer-Encoding: chunked\r\n", "5\r\nhello\r\n0\r\n"));
  expect_cut_off(408, "short", post("Content-Length: 10\r\n", "hello"));
}

TEST_F(Attack, WithTrailersThatMeanSomethingPassesWithoutThem) {
  for (const std::string_view trailer :
       {"Content-Length: 5", "Transfer-Encoding: chunked", "Host: evil", "Authorization: Bearer x",
        "Content-Type: text/html", "X-Forwarded-For: 1.2.3.4", "Connection: close",
        "Cookie: a=b"}) {
    expect_understood(trailer,
                      post("Transfer-Encoding: chunked\r\n",
                           "5\r\nhello\r\n0\r\n" + std::string(trailer) + "\r\nx-ok: 1\r\n\r\n") +
                          std::string(smuggled),
                      {"POST /p hello[x-ok: 1]", "GET /smuggled "});
  }
}

TEST_F(Attack, WithBadStartLinesIsRefused) {
  struct Case {
    std::string_view id;
    std::string line;
    int status = 400;
  };
  const Case cases[] = {
      {"MAL-LONG-METHOD", std::string(5'000, 'A') + " / HTTP/1.1"},
      {"MAL-LONG-URL", "GET /" + std::string(9'000, 'a') + " HTTP/1.1", 414},
      {"MAL-LONG-URL-64K", "GET /" + std::string(65'000, 'a') + " HTTP/1.1", 414},
      {"RFC9112-3-MISSING-TARGET", "GET HTTP/1.1"},
      {"RFC9112-3-MULTI-SP", "GET  /  HTTP/1.1"},
      {"COMP-REQUEST-LINE-TAB", "GET\t/\tHTTP/1.1"},
      {"SPACE-IN-TARGET", "GET /a b HTTP/1.1"},
      {"VERSION-CASE", "GET / http/1.1"},
      {"VERSION-LEADING-ZEROS", "GET / HTTP/01.01"},
      {"VERSION-MISSING-MINOR", "GET / HTTP/1"},
      {"VERSION-WHITESPACE", "GET / HTTP/ 1.1"},
      {"HTTP12-VERSION", "GET / HTTP/1.2"},
      {"HTTP20-VERSION", "GET / HTTP/2.0", 505},
      {"HG-HTTP-4294967295.255", "GET / HTTP/4294967295.255"},
      {"HTTP-0.9", "GET /"},
      {"HTTP-0.9-VERSION", "GET / HTTP/0.9", 505},
      {"FRAGMENT", "GET /a#b HTTP/1.1"},
      {"BACKSLASH", "GET /a\\..\\b HTTP/1.1"},
      {"NO-SLASH", "GET foo HTTP/1.1"},
      {"ASTERISK-WITH-GET", "GET * HTTP/1.1"},
      {"NUL-IN-TARGET", std::string("GET /\0 HTTP/1.1", 15)},
      {"HIGH-IN-TARGET", "GET /\xff HTTP/1.1"},
      {"CR-IN-LINE", "GET / HTTP/1.1\rX: y"},
      {"LEADING-SPACE", " GET / HTTP/1.1"},
      {"COMP-METHOD-CONNECT", "CONNECT a:443 HTTP/1.1", 405},
      {"COMP-METHOD-TRACE", "TRACE / HTTP/1.1", 405},
  };
  for (const auto& [id, line, status] : cases)
    expect_refused(status, id, line + "\r\nHost: a\r\n\r\n");
  expect_refused(505, "MAL-H2-PREFACE", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
  expect_refused(400, "TWO-LEADING-CRLF", "\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n");
  expect_refused(400, "TLS-HELLO", "\x16\x03\x01\x02\x01\x01\xfc\x03\x03\r\n\r\n");
}

TEST_F(Attack, WithBadFieldsIsRefused) {
  struct Case {
    std::string_view id;
    std::string fields;
    int status = 400;
  };
  const Case cases[] = {
      {"MAL-NUL-IN-HEADER-VALUE", std::string("X: a\0b\r\n", 8)},
      {"MAL-CONTROL-CHARS-HEADER",
       "X: a\x01\x1f"
       "b\r\n"},
      {"MAL-DEL-HEADER", "X: a\x7f\r\n"},
      {"MAL-NON-ASCII-HEADER-NAME", "X-\xc3\xa4: a\r\n"},
      {"MAL-LONG-HEADER-NAME", std::string(40'000, 'X') + ": a\r\n", 431},
      {"MAL-LONG-HEADER-VALUE", "X: " + std::string(40'000, 'a') + "\r\n", 431},
      {"MAL-LONG-HEADER-VALUE-1M", "X: " + std::string(1'000'000, 'a') + "\r\n", 431},
      {"MAL-MANY-HEADERS",
       [] {
         std::string many;
         for (int i = 0; i < 1'000; ++i) many += "X: a\r\n";
         return many;
       }(),
       431},
      {"RFC9112-5-EMPTY-HEADER-NAME", ": a\r\n"},
      {"RFC9112-5-HEADER-NO-COLON", "Xa\r\n"},
      {"RFC9112-5-INVALID-HEADER-NAME", "X[]: a\r\n"},
      {"SMUG-BARE-CR-HEADER-VALUE", "X: a\rTransfer-Encoding: chunked\r\n"},
      {"SMUG-BARE-LF-HEADER-VALUE", "X: a\nTransfer-Encoding: chunked\r\n"},
      {"OBS-FOLD", "X: a\r\n b\r\n"},
      {"OBS-FOLD-TAB", "X: a\r\n\tb\r\n"},
      {"OBS-FOLD-EMPTY", "X: a\r\n \r\n"},
      {"SP-BEFORE-COLON", "X : a\r\n"},
      {"HG-empty-name-line", ":\r\n"},
      {"HG-cr-line", "\rX: a\r\n"},
  };
  for (const auto& [id, fields, status] : cases) {
    expect_refused(status, id, "GET / HTTP/1.1\r\nHost: a\r\n" + fields + "\r\n");
  }
  expect_refused(400, "WHITESPACE-BEFORE-HEADERS", "GET / HTTP/1.1\r\n \r\nHost: a\r\n\r\n");
  expect_refused(400, "FIRST-FIELD-FOLDED", "GET / HTTP/1.1\r\n Host: a\r\n\r\n");
  expect_refused(400, "BARE-LF-LINES", "GET / HTTP/1.1\nHost: a\n\n");
}

TEST_F(Attack, WithABadHostIsRefused) {
  for (const std::string_view fields :
       {"", "Host: a\r\nHost: a\r\n", "Host: a\r\nHost: b\r\n", "Host: a, b\r\n", "Host:\r\n",
        "Host: \r\n", "Host: a/b\r\n", "Host: u@a\r\n", "Host: u:p@a\r\n", "Host: a b\r\n",
        "Host: a:port\r\n", "Host: a#\r\n", "Host: a?\r\n", "Host: http://a\r\n", "Host: [::1\r\n",
        "Host: a\\b\r\n", "hOSt: a\r\nHost: a\r\n"}) {
    expect_refused(400, fields, "GET / HTTP/1.1\r\n" + std::string(fields) + "\r\n");
  }
  expect_refused(400, "HG-nul-in-host",
                 std::string("GET / HTTP/1.1\r\nHost: google.com\0.x\r\n\r\n", 38));
  expect_refused(400, "ABSOLUTE-URI-HOST-MISMATCH", "GET http://b/ HTTP/1.1\r\nHost: a\r\n\r\n");
  expect_refused(400, "ABSOLUTE-URI-USERINFO", "GET http://u@a/ HTTP/1.1\r\nHost: a\r\n\r\n");
  expect_understood("ABSOLUTE-URI", "GET http://a/x HTTP/1.1\r\nHost: a\r\n\r\n", {"GET /x "});
}

TEST_F(Attack, WithBodiesWhereFewExpectThemIsReadExactly) {
  for (const std::string_view method :
       {"GET", "HEAD", "OPTIONS", "DELETE", "PUT", "BREW", "QUERY"}) {
    const std::string line = std::string(method) + " /x HTTP/1.1\r\nHost: a\r\n";
    const std::string hidden = "GET /hidden HTTP/1.1\r\nHost: a\r\n\r\n";
    const std::string size = std::to_string(hidden.size());
    expect_understood(
        "CL " + std::string(method),
        line + "Content-Length: " + size + "\r\n\r\n" + hidden + std::string(smuggled),
        {std::string(method) + " /x " + hidden, "GET /smuggled "});
    expect_understood("TE " + std::string(method),
                      line + "Transfer-Encoding: chunked\r\n\r\n21\r\n" + hidden + "\r\n0\r\n\r\n" +
                          std::string(smuggled),
                      {std::string(method) + " /x " + hidden, "GET /smuggled "});
    expect_understood("CL0 " + std::string(method),
                      line + "Content-Length: 0\r\n\r\n" + std::string(smuggled),
                      {std::string(method) + " /x ", "GET /smuggled "});
  }
  expect_understood(
      "EXPECT-100-CL-DESYNC",
      post("Content-Length: 5\r\nExpect: 100-continue\r\n", "hello") + std::string(smuggled),
      {"POST /p hello", "GET /smuggled "});
  expect_understood(
      "EXPECT-100-WITHOUT-BODY",
      "GET /x HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n\r\n" + std::string(smuggled),
      {"GET /x ", "GET /smuggled "});
  expect_refused(417, "EXPECT-OTHER",
                 post("Content-Length: 5\r\nExpect: 100-continue, x\r\n", "hello"));
  expect_understood("SMUG-PIPELINE-SAFE", std::string(smuggled) + std::string(smuggled),
                    {"GET /smuggled ", "GET /smuggled "});
  expect_understood("ONE-LEADING-CRLF", "\r\n" + std::string(smuggled), {"GET /smuggled "});
}

TEST_F(Attack, BehindAMessageIsAMessageOfItsOwnAndRefused) {
  for (const std::string_view tail :
       {std::string_view("\0", 1), std::string_view("\rZGET / HTTP/1.1\r\nHost: a\r\n\r\n"),
        std::string_view("  GET / HTTP/1.1\r\n\r\n"), std::string_view("\x01"),
        std::string_view("\nGET / HTTP/1.1\r\nHost: a\r\n\r\n")}) {
    const Outcome outcome = send(std::string(smuggled) + std::string(tail), 3);
    EXPECT_EQ(outcome.summary(), "200 400 closed; <GET /smuggled >") << tail;
  }
}

TEST_F(Attack, ByConnectionNominationsIsRefusedOrWithoutEffect) {
  expect_refused(400, "nominates host", "GET / HTTP/1.1\r\nHost: a\r\nConnection: Host\r\n\r\n");
  expect_refused(400, "nominates length",
                 post("Connection: Content-Length\r\nContent-Length: 5\r\n", "hello"));
  expect_refused(
      400, "nominates coding",
      post("Connection: Transfer-Encoding\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n"));
  expect_refused(
      400, "nominates authorization",
      "GET / HTTP/1.1\r\nHost: a\r\nConnection: authorization\r\nAuthorization: x\r\n\r\n");
  expect_refused(400, "nominates the way",
                 "GET / HTTP/1.1\r\nHost: a\r\nConnection: X-Forwarded-For\r\n\r\n");
  const Outcome outcome = send(
      "GET / HTTP/1.1\r\nHost: a\r\nConnection: X-Secret\r\nX-Secret: 1\r\nKeep-Alive: "
      "1\r\nProxy-Connection: x\r\n\r\n",
      1);
  EXPECT_EQ(outcome.heads.at(0), "GET / HTTP/1.1\r\nhost: a\r\n\r\n");
}

TEST_F(Attack, ByUpgradesThatAreNoneIsWithoutEffect) {
  struct Case {
    std::string_view id;
    std::string request;
    std::string head;
  };
  const std::string get = "GET / HTTP/1.1\r\nHost: a\r\n";
  const std::string plain_get = "GET / HTTP/1.1\r\nhost: a\r\n\r\n";
  const Case cases[] = {
      {"h2c",
       get + "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: "
             "AAMAAABkAAQAAP__\r\n\r\n",
       plain_get},
      {"h2c-no-connection", get + "Upgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n",
       plain_get},
      {"COMP-UPGRADE-MISSING-CONN", get + "Upgrade: websocket\r\n\r\n", plain_get},
      {"COMP-UPGRADE-UNKNOWN", get + "Connection: Upgrade\r\nUpgrade: TLS/1.0\r\n\r\n", plain_get},
      {"COMP-UPGRADE-LIST", get + "Connection: Upgrade\r\nUpgrade: h2c, websocket\r\n\r\n",
       plain_get},
      {"COMP-UPGRADE-POST",
       "POST / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nContent-Length: "
       "2\r\n\r\nhi",
       "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 2\r\n\r\n"},
      {"COMP-UPGRADE-HTTP10",
       "GET / HTTP/1.0\r\nHost: a\r\nConnection: Upgrade, keep-alive\r\nUpgrade: websocket\r\n\r\n",
       plain_get},
  };
  for (const auto& [id, request, head] : cases) {
    const Outcome outcome = send(request, 1);
    EXPECT_EQ(outcome.statuses, std::vector<int>{200}) << id;
    ASSERT_EQ(outcome.heads.size(), 1u) << id;
    EXPECT_EQ(outcome.heads[0], head) << id;
  }
}

}  // namespace
}  // namespace evenkeel
