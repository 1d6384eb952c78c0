// The checks and conversions between HTTP/1 heads and messages.
#include "wire/http1_message.h"

#include <gtest/gtest.h>

#include <string>

#include "wire/parsed_head.h"

namespace evenkeel {
namespace {

using Kind = Framing::Kind;

/// A request after `accept_request`.
struct AcceptedRequest {
  explicit AcceptedRequest(const std::string& text) : parsed(HeadParser::Kind::request, text) {
    EXPECT_TRUE(parsed.well_formed) << text;
    problem = accept_request(parsed.head(), request, message_info);
  }
  std::string sent(const Framing& framing = {}) const {
    HeadWriter& out = HeadWriter::scratch();
    write_request_head(out, request, framing);
    return std::string(out.written());
  }

  ParsedHead parsed;
  Request request;
  Http1MessageInfo message_info;
  std::optional<HeadError> problem;
};

/// The status with which these lines are refused; 0 if they are accepted.
int refusal(std::string_view request_line, std::string_view fields) {
  const AcceptedRequest accepted(std::string(request_line) + "\r\n" + std::string(fields) + "\r\n");
  if (!accepted.problem) return 0;
  switch (accepted.problem->fault) {
    case Fault::bad_request: return 400;
    case Fault::method_not_allowed: return 405;
    case Fault::expectation_failed: return 417;
    case Fault::not_implemented: return 501;
    default: return -1;
  }
}
int refusal_of_fields(std::string_view fields) {
  return refusal("POST / HTTP/1.1", "Host: a\r\n" + std::string(fields));
}
int refusal_of_host(std::string_view host) {
  return refusal("GET / HTTP/1.1", "Host: " + std::string(host) + "\r\n");
}
int refusal_of_target(std::string_view target) {
  return refusal("GET " + std::string(target) + " HTTP/1.1", "Host: a\r\n");
}

struct AcceptedResponse {
  explicit AcceptedResponse(const std::string& text, std::string_view method = "GET")
      : parsed(HeadParser::Kind::response, text) {
    EXPECT_TRUE(parsed.well_formed) << text;
    problem = accept_response(parsed.head(), method, response, message_info);
  }

  ParsedHead parsed;
  Response response;
  Http1MessageInfo message_info;
  std::optional<HeadError> problem;
};

// ---- Host and target ---------------------------------------------------------------------------

TEST(AcceptRequest, RequiresExactlyOneHostInHttp11) {
  EXPECT_EQ(refusal("GET / HTTP/1.1", ""), 400);
  EXPECT_EQ(refusal("GET / HTTP/1.1", "Host: a\r\nHost: a\r\n"), 400);
  EXPECT_EQ(refusal("GET / HTTP/1.1", "Host: a\r\nhOST: b\r\n"), 400);
  EXPECT_EQ(refusal("GET / HTTP/1.0", ""), 0);
  EXPECT_EQ(refusal("GET / HTTP/1.0", "Host: a\r\nHost: b\r\n"), 400);
}

TEST(AcceptRequest, AcceptsNamesAndAddressesWithAPortAsHost) {
  for (const std::string_view host :
       {"a", "a.b:80", "a:", "127.0.0.1:8080", "[::1]", "[2001:db8::1]:443", "x_y.z", "a%20b",
        "a:65535", "a:0000000000000000000065535", "xn--fsq.example."}) {
    EXPECT_EQ(refusal_of_host(host), 0) << host;
  }
}

TEST(AcceptRequest, RefusesOtherHosts) {
  for (const std::string_view host : {"a:4294967297",
                                      "a:18446744073709551617",
                                      "a:65536x",
                                      "a:655350",
                                      "",
                                      "a/b",
                                      "u@a",
                                      "a,b",
                                      "a b",
                                      "a:65536",
                                      "a:8a",
                                      "a:+80",
                                      "a:-1",
                                      ":80",
                                      "[::1",
                                      "[]",
                                      "[::1]x",
                                      "[g::1]",
                                      "a?b",
                                      "a#b",
                                      "a\\b",
                                      "a\tb",
                                      "\"a\"",
                                      "a:80:80",
                                      "\xc3\xbc",
                                      "<a>",
                                      "a^b",
                                      "http://a"}) {
    EXPECT_EQ(refusal_of_host(host), 400) << host;
  }
}

TEST(AcceptRequest, TurnsAbsoluteFormIntoAuthorityAndPath) {
  const AcceptedRequest accepted(
      "GET http://A.example:80/x?y=1 HTTP/1.1\r\nHost: a.example:80\r\n\r\n");

  ASSERT_FALSE(accepted.problem);
  EXPECT_EQ(accepted.request.authority, "A.example:80");
  EXPECT_EQ(accepted.request.path, "/x?y=1");
  EXPECT_EQ(accepted.sent(), "GET /x?y=1 HTTP/1.1\r\nhost: A.example:80\r\n\r\n");
}

TEST(AcceptRequest, ReadsAbsoluteFormWithoutAPathAsTheRoot) {
  const AcceptedRequest accepted("GET HTTPS://a HTTP/1.1\r\nHost: a\r\n\r\n");

  ASSERT_FALSE(accepted.problem);
  EXPECT_EQ(accepted.request.path, "/");
}

TEST(AcceptRequest, TakesAbsoluteFormsWhoseHostIsWrittenOtherwise) {
  for (const std::string_view target :
       {"http://a:80/", "https://A:443/", "http://a./", "http://a:/", "http://a:080/"}) {
    EXPECT_EQ(refusal_of_target(target), 0) << target;
  }
}

TEST(AcceptRequest, RefusesInvalidAbsoluteFormsAndThoseThatDifferFromHost) {
  for (const std::string_view target :
       {"http://b/", "http://a:443/", "https://a:80/", "http://u@a/", "http:///x", "http://",
        "http://a?x", "ftp://a/", "http:/a/", "a", "a/b", "a:80", "//", "?", "ws://a/"}) {
    EXPECT_EQ(refusal_of_target(target), target == "//" ? 0 : 400) << target;
  }
}

TEST(AcceptRequest, AcceptsTheAsteriskWithOptionsOnly) {
  EXPECT_EQ(refusal("OPTIONS * HTTP/1.1", "Host: a\r\n"), 0);
  EXPECT_EQ(refusal_of_target("*"), 400);
}

TEST(AcceptRequest, RefusesConnectAndTrace) {
  EXPECT_EQ(refusal("CONNECT a:443 HTTP/1.1", "Host: a:443\r\n"), 405);
  EXPECT_EQ(refusal("TRACE / HTTP/1.1", "Host: a\r\n"), 405);
  EXPECT_EQ(refusal("connect /x HTTP/1.1", "Host: a\r\n"), 0);
}

// ---- framing -----------------------------------------------------------------------------------

TEST(AcceptRequest, ReadsTheThreeRequestFramings) {
  EXPECT_EQ(AcceptedRequest("GET / HTTP/1.1\r\nHost: a\r\n\r\n").message_info.framing.kind,
            Kind::none);
  EXPECT_EQ(AcceptedRequest("GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 7\r\n\r\n")
                .message_info.framing.length,
            7u);
  EXPECT_EQ(AcceptedRequest("GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n")
                .message_info.framing.kind,
            Kind::chunked);
}

TEST(AcceptRequest, RefusesLengthAndCodingTogether) {
  EXPECT_EQ(refusal_of_fields("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n"), 400);
  EXPECT_EQ(refusal_of_fields("Transfer-Encoding: chunked\r\nContent-Length: 5\r\n"), 400);
  EXPECT_EQ(refusal_of_fields("Transfer-Encoding: gzip\r\nContent-Length: 5\r\n"), 400);
  EXPECT_EQ(refusal_of_fields("Transfer-Encoding:\r\nContent-Length: 5\r\n"), 400);
}

TEST(AcceptRequest, RefusesEveryLengthThatIsNotOnePlainNumber) {
  for (const std::string_view value : {"",
                                       "+5",
                                       "-5",
                                       "-0",
                                       "0x5",
                                       "05",
                                       "00",
                                       "5 5",
                                       "5_0",
                                       "5,5",
                                       "5, 5",
                                       "5,6",
                                       "5,5,5",
                                       "5;",
                                       "5.0",
                                       "5e1",
                                       "5,",
                                       ",5",
                                       "five",
                                       "18446744073709551616",
                                       "99999999999999999999",
                                       "5\t5",
                                       "\"5\"",
                                       "5 ,",
                                       "\xb5",
                                       "0b1"}) {
    EXPECT_EQ(refusal_of_fields("Content-Length: " + std::string(value) + "\r\n"), 400) << value;
  }
  EXPECT_EQ(refusal_of_fields("Content-Length: 5\r\nContent-Length: 5\r\n"), 400);
  EXPECT_EQ(refusal_of_fields("Content-Length: 5\r\ncontent-length: 6\r\n"), 400);
}

TEST(AcceptRequest, AcceptsLengthsWithWhitespaceAround) {
  for (const std::string_view value : {"5", "  5", "\t5", "5  ", "5\t"}) {
    EXPECT_EQ(refusal_of_fields("Content-Length:" + std::string(value) + "\r\n"), 0) << value;
  }
  EXPECT_EQ(AcceptedRequest("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n")
                .message_info.framing.length,
            0u);
}

TEST(AcceptRequest, RefusesEveryCodingExceptChunked) {
  for (const std::string_view value :
       {"", "identity", "chunked, chunked", "chunked,", ",chunked", ", chunked", "chunked, gzip",
        "gzip, chunked", "chunked;a=b", "\"chunked\"", "chun ked", "chunked chunked",
        "\xa0"
        "chunked",
        "chunked\xa0", "chunked, identity", "'chunked', x", "\\chunked"}) {
    EXPECT_EQ(refusal_of_fields("Transfer-Encoding: " + std::string(value) + "\r\n"), 400) << value;
  }
  for (const std::string_view value : {"gzip", "xchunked", "deflate", "chunked-x", "'chunked'"}) {
    EXPECT_EQ(refusal_of_fields("Transfer-Encoding: " + std::string(value) + "\r\n"), 501) << value;
  }
  EXPECT_EQ(refusal_of_fields("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"), 400);
  EXPECT_EQ(refusal_of_fields("Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n"),
            400);
  EXPECT_EQ(refusal("POST / HTTP/1.0", "Host: a\r\nTransfer-Encoding: chunked\r\n"), 400);
}

TEST(AcceptRequest, AcceptsChunkedInAnyCaseAndWithWhitespaceAround) {
  for (const std::string_view value :
       {"chunked", "Chunked", "CHUNKED", "\tchunked", " chunked \t"}) {
    EXPECT_EQ(refusal_of_fields("Transfer-Encoding:" + std::string(value) + "\r\n"), 0) << value;
  }
}

TEST(AcceptRequest, WritesFramingOnce) {
  const AcceptedRequest accepted(
      "POST / HTTP/1.1\r\nTRANSFER-encoding: ChunkeD\r\nhOsT: a\r\nAccept: b\r\n\r\n");

  EXPECT_EQ(accepted.sent({Kind::chunked}),
            "POST / HTTP/1.1\r\nhost: a\r\nAccept: b\r\ntransfer-encoding: chunked\r\n\r\n");
  EXPECT_EQ(accepted.sent({Kind::length, 12}),
            "POST / HTTP/1.1\r\nhost: a\r\nAccept: b\r\ncontent-length: 12\r\n\r\n");
}

// ---- hop-by-hop --------------------------------------------------------------------------------

TEST(AcceptRequest, RemovesHopByHopFields) {
  const AcceptedRequest accepted(
      "GET / HTTP/1.1\r\nHost: a\r\nConnection: close, X-Secret\r\nX-Secret: 1\r\nx-SECRET: "
      "2\r\nKeep-Alive: 5\r\n"
      "Proxy-Connection: x\r\nTrailer: Expires\r\nUpgrade: h2c\r\nHTTP2-Settings: "
      "AAMAAABkAARAAAAAAAIAAAAA\r\n"
      "TE: gzip\r\nX-Kept: yes\r\n\r\n");

  ASSERT_FALSE(accepted.problem);
  EXPECT_EQ(accepted.sent(), "GET / HTTP/1.1\r\nhost: a\r\nX-Kept: yes\r\n\r\n");
  EXPECT_FALSE(accepted.message_info.keep_alive);
}

TEST(AcceptRequest, KeepsTeTrailers) {
  const AcceptedRequest accepted(
      "GET / HTTP/1.1\r\nHost: a\r\nConnection: TE\r\nTE: gzip, Trailers\r\n\r\n");

  EXPECT_TRUE(accepted.request.wants_trailers);
  EXPECT_EQ(accepted.sent(), "GET / HTTP/1.1\r\nhost: a\r\nconnection: te\r\nte: trailers\r\n\r\n");
}

TEST(AcceptRequest, RejectsNominationOfEndToEndFields) {
  for (const std::string_view name :
       {"Host", "Content-Length", "transfer-encoding", "Authorization", "Cookie", "Expect",
        "Forwarded", "X-Forwarded-For", "X-Forwarded-Proto", "X-Forwarded-Host", "Content-Type"}) {
    EXPECT_EQ(refusal_of_fields("Connection: keep-alive, " + std::string(name) + "\r\n"), 400)
        << name;
  }
}

TEST(AcceptRequest, RefusesTooManyNominations) {
  std::string names = "Connection: a";
  for (int i = 0; i < 16; ++i) names += ", x" + std::to_string(i);
  EXPECT_EQ(refusal_of_fields(names + "\r\n"), 400);
}

TEST(AcceptRequest, DerivesKeepAliveFromVersionAndConnection) {
  const auto keeps = [](std::string_view version, std::string_view connection) {
    return AcceptedRequest("GET / " + std::string(version) + "\r\nHost: a\r\n" +
                           std::string(connection) + "\r\n")
        .message_info.keep_alive;
  };
  EXPECT_TRUE(keeps("HTTP/1.1", ""));
  EXPECT_FALSE(keeps("HTTP/1.1", "Connection: CLOSE\r\n"));
  EXPECT_FALSE(keeps("HTTP/1.1", "Connection: foo\r\nConnection: close\r\n"));
  EXPECT_FALSE(keeps("HTTP/1.0", ""));
  EXPECT_TRUE(keeps("HTTP/1.0", "Connection: Keep-Alive\r\n"));
  EXPECT_FALSE(keeps("HTTP/1.0", "Connection: keep-alive, close\r\n"));
}

TEST(AcceptRequest, DropsUnderscoreAliases) {
  const AcceptedRequest accepted(
      "GET / HTTP/1.1\r\nHost: a\r\nContent_Length: 5\r\nTransfer_Encoding: "
      "chunked\r\nX_Forwarded-For: 1\r\n"
      "X_Forwarded_Port: 1\r\nX_Real_IP: 6.6.6.6\r\nX-Evenkeel_Trust: 1\r\nAuthorization_: "
      "x\r\nproxy_Authorization: "
      "y\r\nmy_field: z\r\n\r\n");

  EXPECT_EQ(accepted.sent(),
            "GET / HTTP/1.1\r\nhost: a\r\nAuthorization_: x\r\nmy_field: z\r\n\r\n");
}

// ---- upgrade and expect ------------------------------------------------------------------------

TEST(AcceptRequest, AcceptsWebSocketUpgrades) {
  const AcceptedRequest accepted(
      "GET /ws HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, Upgrade\r\nUpgrade: WebSocket\r\n"
      "Sec-WebSocket-Key: k\r\n\r\n");

  EXPECT_EQ(accepted.request.upgrade, "websocket");
  EXPECT_EQ(accepted.sent(),
            "GET /ws HTTP/1.1\r\nhost: a\r\nSec-WebSocket-Key: k\r\nconnection: "
            "upgrade\r\nupgrade: websocket\r\n\r\n");
}

TEST(AcceptRequest, RefusesAWebSocketUpgradeWithSeveralKeys) {
  const std::string head =
      "GET /ws HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n";
  for (const char* second : {"k", "other"}) {
    const AcceptedRequest twice(head + "Sec-WebSocket-Key: k\r\nsec-websocket-key: " + second +
                                "\r\n\r\n");
    ASSERT_TRUE(twice.problem);
    EXPECT_EQ(twice.problem->fault, Fault::bad_request);
    EXPECT_STREQ(twice.problem->detail, "multiple sec-websocket-key fields");
  }
  EXPECT_EQ(AcceptedRequest(head + "\r\n").request.upgrade, "");
}

TEST(AcceptRequest, AcceptsAWebSocketUpgradeWithAnEmptyBody) {
  const AcceptedRequest accepted(
      "GET /ws HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
      "Sec-WebSocket-Key: k\r\nContent-Length: 0\r\n\r\n");

  EXPECT_EQ(accepted.request.upgrade, "websocket");
}

TEST(AcceptRequest, IgnoresOtherUpgrades) {
  const auto upgrade = [](const std::string& text) {
    return std::string(AcceptedRequest(text + "Sec-WebSocket-Key: k\r\n\r\n").request.upgrade);
  };
  EXPECT_EQ(upgrade("GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\n"), "");
  EXPECT_EQ(upgrade("GET / HTTP/1.0\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket\r\n"),
            "");
  EXPECT_EQ(upgrade("POST / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket\r\n"),
            "");
  EXPECT_EQ(upgrade("GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: h2c\r\n"), "");
  EXPECT_EQ(
      upgrade("GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket, h2c\r\n"),
      "");
  EXPECT_EQ(upgrade("GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nConnection: "
                    "upgrade\r\nUpgrade: websocket\r\n"),
            "");
  EXPECT_EQ(AcceptedRequest("GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: "
                            "websocket\r\n\r\n")
                .request.upgrade,
            "")
      << "without a key";
}

TEST(AcceptRequest, SupportsOnlyTheContinueExpectation) {
  EXPECT_TRUE(AcceptedRequest(
                  "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nExpect: 100-Continue\r\n\r\n")
                  .message_info.expects_continue);
  EXPECT_FALSE(
      AcceptedRequest(
          "POST / HTTP/1.0\r\nHost: a\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n")
          .message_info.expects_continue);
  EXPECT_FALSE(AcceptedRequest("GET / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n\r\n")
                   .message_info.expects_continue);
  EXPECT_FALSE(
      AcceptedRequest(
          "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\nExpect: 100-continue\r\n\r\n")
          .message_info.expects_continue);
  EXPECT_EQ(refusal_of_fields("Expect: 200-ok\r\n"), 417);
  EXPECT_EQ(refusal_of_fields("Expect: 100-continue, x\r\n"), 417);
  EXPECT_EQ(AcceptedRequest(
                "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n")
                .sent(),
            "POST / HTTP/1.1\r\nhost: a\r\n\r\n");
}

// ---- responses ---------------------------------------------------------------------------------

TEST(AcceptResponse, ReadsTheFourResponseFramings) {
  EXPECT_EQ(
      AcceptedResponse("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n").message_info.framing.length,
      3u);
  EXPECT_EQ(AcceptedResponse("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
                .message_info.framing.kind,
            Kind::chunked);
  const AcceptedResponse unframed("HTTP/1.1 200 OK\r\n\r\n");
  EXPECT_EQ(unframed.message_info.framing.kind, Kind::until_close);
  EXPECT_FALSE(unframed.message_info.keep_alive);
  for (const std::string_view status :
       {"100 Continue", "103 Early Hints", "204 No Content", "304 Not Modified"}) {
    EXPECT_EQ(
        AcceptedResponse("HTTP/1.1 " + std::string(status) + "\r\n\r\n").message_info.framing.kind,
        Kind::none)
        << status;
  }
}

TEST(AcceptResponse, KeepsTheLengthOfABodilessResponseAsDeclared) {
  const AcceptedResponse head("HTTP/1.1 200 OK\r\nContent-Length: 300\r\n\r\n", "HEAD");
  EXPECT_EQ(head.message_info.framing.kind, Kind::none);
  EXPECT_EQ(head.response.declared_length, 300u);
  EXPECT_TRUE(head.message_info.keep_alive);

  const AcceptedResponse not_modified("HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n");
  EXPECT_EQ(not_modified.message_info.framing.kind, Kind::none);
  EXPECT_EQ(not_modified.response.declared_length, 9u);

  const AcceptedResponse no_content("HTTP/1.1 204 No Content\r\nContent-Length: 9\r\n\r\n");
  EXPECT_EQ(no_content.message_info.framing.kind, Kind::none);
  EXPECT_FALSE(no_content.response.declared_length);

  EXPECT_EQ(AcceptedResponse("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "HEAD")
                .message_info.framing.kind,
            Kind::none);
}

TEST(AcceptResponse, RefusesAmbiguousFraming) {
  for (const std::string_view fields :
       {"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
        "Content-Length: 5\r\nContent-Length: 5\r\n", "Content-Length: 5\r\nContent-Length: 6\r\n",
        "Content-Length: +5\r\n", "Content-Length: 5, 5\r\n", "Content-Length:\r\n",
        "Transfer-Encoding: gzip\r\n", "Transfer-Encoding: gzip, chunked\r\n",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: identity\r\n", "Connection: Content-Length\r\nContent-Length: 5\r\n"}) {
    const AcceptedResponse accepted("HTTP/1.1 200 OK\r\n" + std::string(fields) + "\r\n");
    ASSERT_TRUE(accepted.problem) << fields;
    EXPECT_EQ(accepted.problem->fault, Fault::backend_protocol);
  }
  EXPECT_TRUE(AcceptedResponse("HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n").problem);
  EXPECT_TRUE(
      AcceptedResponse("HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n").problem);
  EXPECT_TRUE(
      AcceptedResponse("HTTP/1.1 103 Early Hints\r\nTransfer-Encoding: chunked\r\n\r\n").problem);
}

TEST(AcceptResponse, KeepsTheLinkAliveOnlyAsTheHeadAllows) {
  const auto keeps = [](std::string_view version, std::string_view connection) {
    return AcceptedResponse(std::string(version) + " 200 OK\r\nContent-Length: 0\r\n" +
                            std::string(connection) + "\r\n")
        .message_info.keep_alive;
  };
  EXPECT_TRUE(keeps("HTTP/1.1", ""));
  EXPECT_FALSE(keeps("HTTP/1.1", "Connection: close\r\n"));
  EXPECT_FALSE(keeps("HTTP/1.0", ""));
  EXPECT_TRUE(keeps("HTTP/1.0", "Connection: keep-alive\r\n"));
  EXPECT_FALSE(AcceptedResponse("HTTP/1.0 200 OK\r\nConnection: keep-alive\r\n\r\n")
                   .message_info.keep_alive);
}

TEST(AcceptResponse, RemovesHopByHopFieldsAndRewritesFraming) {
  const AcceptedResponse accepted(
      "HTTP/1.1 200 Fine\r\nServer: s\r\nConnection: keep-alive, X-Hop\r\nKeep-Alive: "
      "timeout=5\r\nX-Hop: 1\r\n"
      "Transfer-Encoding: chunked\r\nTrailer: X\r\nUpgrade: h2c\r\nProxy-Connection: "
      "a\r\nSet-Cookie: a=1\r\n"
      "Set-Cookie: b=2\r\n\r\n");

  HeadWriter& out = HeadWriter::scratch();
  write_response_head(out, accepted.response, {Kind::chunked}, false, 1);

  EXPECT_EQ(out.written(),
            "HTTP/1.1 200 Fine\r\nServer: s\r\nSet-Cookie: a=1\r\nSet-Cookie: b=2\r\n"
            "transfer-encoding: chunked\r\n\r\n");
}

TEST(AcceptResponse, WritesTheConnectionField) {
  const auto written = [](int status, bool close, int minor_version) {
    HeadWriter& out = HeadWriter::scratch();
    write_response_head(out, Response{.status = status}, {Kind::length, 0}, close, minor_version);
    return std::string(out.written());
  };
  EXPECT_EQ(written(200, false, 1), "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
  EXPECT_EQ(written(200, true, 1),
            "HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
  EXPECT_EQ(written(200, false, 0),
            "HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: keep-alive\r\n\r\n");
  EXPECT_EQ(written(299, false, 1), "HTTP/1.1 299 \r\ncontent-length: 0\r\n\r\n");
}

TEST(HeadWriter, CopiesNamesAndValuesOfAnyLength) {
  std::string letters;
  for (int i = 0; i < 80; ++i) letters += static_cast<char>('!' + i);
  const std::string_view text = letters;
  for (std::size_t size = 0; size <= text.size(); ++size) {
    const std::string_view name = text.substr(0, size);
    const std::string_view value = text.substr(text.size() - size);
    HeadWriter& out = HeadWriter::scratch();
    out.field(name, value);
    out.field("next", "one");
    EXPECT_EQ(out.written(), std::string(name) + ": " + std::string(value) + "\r\nnext: one\r\n");
  }
}

TEST(HeadWriter, GrowsWithItsHead) {
  const std::string value(9000, 'v');
  HeadWriter& out = HeadWriter::scratch();

  out << "GET / HTTP/1.1\r\n";
  out.field("a", value);
  out << std::uint64_t{18446744073709551615u};
  out.chunk_size(0xabc);

  EXPECT_EQ(out.written(), "GET / HTTP/1.1\r\na: " + value + "\r\n18446744073709551615abc\r\n");
  EXPECT_EQ(HeadWriter::scratch().written(), "");
}

TEST(ChunkFraming, PlacesTheLastChunkAndTrailers) {
  const auto framed = [](const Chunk& chunk) {
    HeadWriter& out = HeadWriter::scratch();
    std::string storage;
    const std::string tail(frame_chunk(out, chunk, storage));
    return std::string(out.written()) + std::string(chunk.bytes) + tail;
  };
  Fields trailers;
  trailers.add("a", "1");
  trailers.add("b", "");
  EXPECT_EQ(framed({.bytes = "hello"}), "5\r\nhello\r\n");
  EXPECT_EQ(framed({.bytes = "hello", .last = true}), "5\r\nhello\r\n0\r\n\r\n");
  EXPECT_EQ(framed({.last = true}), "0\r\n\r\n");
  EXPECT_EQ(framed({.bytes = "hello", .last = true, .trailers = &trailers}),
            "5\r\nhello\r\n0\r\na: 1\r\nb: \r\n\r\n");
  EXPECT_EQ(framed({.last = true, .trailers = &trailers}), "0\r\na: 1\r\nb: \r\n\r\n");
  const std::string large(70000, 'x');
  EXPECT_EQ(framed({.bytes = large}), "11170\r\n" + large + "\r\n");
}

}  // namespace
}  // namespace evenkeel
