#include "wire/http2_message.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "wire/message_rules.h"

namespace evenkeel {
namespace {

using Pairs = std::vector<std::pair<std::string, std::string>>;

Field field_of(std::string_view name, std::string_view value, bool never_indexed = false) {
  return {.name_begin = name.data(),
          .value_begin = value.data(),
          .value_size = static_cast<std::uint32_t>(value.size()),
          .name_size = static_cast<std::uint16_t>(name.size()),
          .id = field_id(name),
          .never_indexed = never_indexed};
}

/// A valid request, of which a test changes a part.
struct RequestHeadFixture {
  explicit RequestHeadFixture(const Pairs& changed, const Pairs& added = {}) {
    Pairs fields = {{":method", "GET"},
                    {":scheme", "https"},
                    {":path", "/v1/models?x=1"},
                    {":authority", "api.example:8443"}};
    for (const auto& [name, value] : changed) {
      for (auto& field : fields) {
        if (field.first == name) field.second = value;
      }
    }
    fields.insert(fields.end(), added.begin(), added.end());
    for (const auto& [name, value] : fields) head.field(request, field_of(name, value));
    problem = head.finish(request);
  }
  std::string text() const {
    std::string all;
    for (const Field& field : request.fields) {
      all.append(field.name()).append("=").append(field.value()).append(";");
    }
    return all;
  }

  Request request;
  Http2RequestHead head;
  const char* problem;
};

TEST(Http2RequestHead, ReadsTheFourPseudoHeaders) {
  const RequestHeadFixture gathered({});
  EXPECT_EQ(gathered.problem, nullptr);
  EXPECT_EQ(gathered.request.method, "GET");
  EXPECT_EQ(gathered.request.scheme, "https");
  EXPECT_EQ(gathered.request.path, "/v1/models?x=1");
  EXPECT_EQ(gathered.request.authority, "api.example:8443");
  EXPECT_EQ(gathered.text(), "");
}

TEST(Http2RequestHead, KeepsWhatMustNotBeIndexed) {
  Request request;
  Http2RequestHead head;
  const Field fields[] = {field_of(":method", "GET"), field_of(":path", "/?key=k", true),
                          field_of("accept", "*/*"),  field_of("x-api-key", "k", true),
                          field_of("cookie", "a=1"),  field_of("cookie", "b=2", true),
                          field_of("etag", "e")};
  for (const Field& field : fields) head.field(request, field);
  head.finish(request);
  EXPECT_TRUE(request.path_never_indexed);
  Http2Section section(Http2Section::Values::borrowed);
  section.add_all(request.fields);
  std::string secrets;
  for (const Field& field : section.fields()) {
    if (field.never_indexed) secrets.append(field.name()).append("=").append(field.value()) += ";";
  }
  EXPECT_EQ(secrets, "x-api-key=k;cookie=a=1; b=2;");
}

TEST(Http2RequestHead, RefusesWhatHttp1WouldReadDifferently) {
  const Pairs wrong = {{":path", ""},
                       {":path", "v1"},
                       {":path", "/a b"},
                       {":path", "/a#b"},
                       {":path", "/a\r\nx: y"},
                       {":path", "/\x80"},
                       {":path", "*"},
                       {":path", "http://x/"},
                       {":method", "GE T"},
                       {":method", "GET / HTTP/1.1\r\nx:"},
                       {":method", ""},
                       {":method", "PRI"},
                       {":method", "ABCDEFGHIJKLMNOPQRSTUVWXYZABCDEFG"},
                       {":scheme", "gopher"},
                       {":authority", ""},
                       {":authority", "user@host"},
                       {":authority", "host:port"},
                       {":authority", "a,b"},
                       {":authority", "a b"},
                       {":authority", "a/b"}};
  for (const auto& [name, value] : wrong) {
    const RequestHeadFixture gathered(Pairs{{name, value}});
    EXPECT_NE(gathered.problem, nullptr) << name << " " << value;
    EXPECT_EQ(gathered.head.fault(), Fault::bad_request);
  }
}

TEST(Http2RequestHead, AcceptsOptionsAsterisk) {
  EXPECT_EQ(RequestHeadFixture(Pairs{{":method", "OPTIONS"}, {":path", "*"}}).problem, nullptr);
}

TEST(Http2RequestHead, RefusesConnectAndTrace) {
  for (const char* method : {"CONNECT", "TRACE"}) {
    const RequestHeadFixture gathered(Pairs{{":method", method}});
    EXPECT_NE(gathered.problem, nullptr);
    EXPECT_EQ(gathered.head.fault(), Fault::method_not_allowed);
  }
}

TEST(Http2RequestHead, TurnsAnExtendedConnectIntoAnUpgrade) {
  for (const char* protocol : {"websocket", "WebSocket"}) {
    const RequestHeadFixture gathered(Pairs{{":method", "CONNECT"}},
                                      {{":protocol", protocol},
                                       {"sec-websocket-key", "of the client"},
                                       {"Sec-WebSocket-Accept", "of the client"},
                                       {"sec-websocket-version", "13"},
                                       {"expect", "100-continue"}});
    EXPECT_EQ(gathered.problem, nullptr);
    EXPECT_EQ(gathered.request.method, "GET");
    EXPECT_EQ(gathered.request.upgrade, "websocket");
    EXPECT_TRUE(gathered.request.is_extended_connect);
    EXPECT_FALSE(gathered.head.expects_continue);
    const auto key = gathered.request.fields.value("sec-websocket-key");
    ASSERT_TRUE(key);
    EXPECT_EQ(key->size(), 24u);
    EXPECT_EQ(gathered.text(),
              "sec-websocket-version=13;sec-websocket-key=" + std::string(*key) + ";");
  }
}

TEST(Http2RequestHead, RefusesOtherProtocolsThanWebsocket) {
  for (const char* protocol : {"connect-udp", "h2c", "websocket, h2c", "websocket "}) {
    const RequestHeadFixture gathered(Pairs{{":method", "CONNECT"}}, {{":protocol", protocol}});
    EXPECT_NE(gathered.problem, nullptr) << protocol;
    EXPECT_EQ(gathered.head.fault(), Fault::not_implemented);
    EXPECT_EQ(gathered.request.method, "CONNECT");
  }
}

TEST(Http2RequestHead, ChecksAnExtendedConnectAsAnyRequest) {
  const Pairs wrong = {{":method", "GET"},      {":path", "ws"},
                       {":path", "*"},          {":path", "/a b"},
                       {":scheme", "wss"},      {":authority", "a/b"},
                       {"content-length", "0"}, {"content-length", "5"},
                       {"host", "other"},       {"expect", "100-continue, a-miracle"}};
  for (const auto& [name, value] : wrong) {
    Pairs changed = {{":method", "CONNECT"}};
    Pairs added = {{":protocol", "websocket"}};
    (name.starts_with(':') ? changed : added).emplace_back(name, value);
    const RequestHeadFixture gathered(changed, added);
    EXPECT_NE(gathered.problem, nullptr) << name << " " << value;
  }
}

TEST(Http2RequestHead, UsesHostWithoutAuthorityAndRefusesADifferentOne) {
  EXPECT_EQ(
      RequestHeadFixture(Pairs{{":authority", ""}}, {{"host", "a.example"}}).request.authority,
      "a.example");
  EXPECT_EQ(RequestHeadFixture({}, {{"host", "API.example:8443"}}).problem, nullptr);
  EXPECT_EQ(RequestHeadFixture({}, {{"host", "api.example.:8443"}}).problem, nullptr);
  EXPECT_EQ(RequestHeadFixture({{":authority", "a"}}, {{"host", "a:443"}}).problem, nullptr);
  EXPECT_NE(RequestHeadFixture({{":authority", "a"}}, {{"host", "a:80"}}).problem, nullptr);
  EXPECT_NE(RequestHeadFixture({}, {{"host", "b.example"}}).problem, nullptr);
  EXPECT_NE(RequestHeadFixture(Pairs{{":authority", ""}}, {{"host", "a"}, {"host", "b"}}).problem,
            nullptr);
}

TEST(Http2RequestHead, JoinsCookieFields) {
  EXPECT_EQ(RequestHeadFixture({}, {{"cookie", "a=1"}, {"x", "y"}, {"cookie", "b=2"}}).text(),
            "x=y;cookie=a=1; b=2;");
}

TEST(Http2RequestHead, DropsFieldsOfFramingAndOfOneHop) {
  const RequestHeadFixture gathered({}, {{"content-length", "5"},
                                         {"te", "trailers"},
                                         {"trailer", "x-check"},
                                         {"expect", "100-continue"},
                                         {"x-kept", "1"}});
  EXPECT_EQ(gathered.problem, nullptr);
  EXPECT_EQ(gathered.text(), "x-kept=1;");
  EXPECT_EQ(gathered.head.length, 5u);
  EXPECT_TRUE(gathered.head.expects_continue);
  EXPECT_TRUE(gathered.request.wants_trailers);
}

TEST(Http2RequestHead, RefusesABadLengthAndAnUnknownExpectation) {
  for (const char* length : {"", "+5", "05", "5,5", "-1", "99999999999999999999"}) {
    EXPECT_NE(RequestHeadFixture({}, {{"content-length", length}}).problem, nullptr) << length;
  }
  const RequestHeadFixture gathered({}, {{"expect", "a-miracle"}});
  EXPECT_NE(gathered.problem, nullptr);
  EXPECT_EQ(gathered.head.fault(), Fault::expectation_failed);
}

TEST(Http2RequestHead, DropsUnderscoreAliases) {
  EXPECT_EQ(
      RequestHeadFixture({}, {{"x_forwarded_for", "1"}, {"content_length", "3"}, {"my_key", "2"}})
          .text(),
      "my_key=2;");
}

std::string written(const Http2Section& section) {
  std::string all;
  for (const Field& field : section.fields()) {
    all.append(field.name()).append("=").append(field.value()).append(";");
  }
  return all;
}

TEST(Http2Section, HasFieldsInTheirOrder) {
  Fields fields;
  fields.add("Content-Type", "text/plain");
  fields.add("upgrade", "h2c");
  fields.add("X-Request-ID", "7");
  Http2Section section(Http2Section::Values::copied);
  section.add_status(204);
  section.add_all(fields);
  section.add_length(1234567890123);
  EXPECT_EQ(written(section),
            ":status=204;content-type=text/plain;x-request-id=7;content-length=1234567890123;");
}

TEST(Http2Section, CopiesWhatMayGoAway) {
  Http2Section section(Http2Section::Values::copied);
  {
    Fields fields;
    fields.add_copy("X-Kept", "a value");
    section.add_all(fields);
  }
  EXPECT_EQ(written(section), "X-Kept=a value;");
}

TEST(Http2Section, RemovesAField) {
  Fields fields;
  fields.add("X-Kept", "1");
  fields.add("Sec-WebSocket-Key", "k");
  Http2Section section(Http2Section::Values::borrowed);
  section.add_all(fields);
  section.remove("sec-websocket-key");
  EXPECT_EQ(written(section), "X-Kept=1;");
}

TEST(MessageRules, ForbiddenTrailersAreRecognized) {
  for (const char* name : {"content-length",
                           "Transfer-Encoding",
                           "host",
                           "authorization",
                           "set-cookie",
                           "content_length",
                           "x_forwarded_for",
                           "x_request_id",
                           "cache-control",
                           "te",
                           "cookie",
                           "x-api-key",
                           "X_Api_Key",
                           "api-key",
                           "x-goog-api-key",
                           "proxy_authorization",
                           "Content-Type",
                           "Connection",
                           "Trailer",
                           "Upgrade",
                           "Expect",
                           "Content-Encoding",
                           "Content-Range",
                           "Max-Forwards",
                           "Range",
                           "X-Forwarded-For",
                           "X-Forwarded-Port",
                           "Forwarded",
                           "X-Evenkeel-Trace",
                           "Keep-Alive",
                           "Proxy-Authorization",
                           "If-Match",
                           "If-None-Match",
                           "Pragma",
                           "WWW-Authenticate",
                           "Location",
                           "Vary",
                           "Age",
                           "Expires",
                           "Retry-After"}) {
    EXPECT_TRUE(is_forbidden_in_trailers(name)) << name;
  }
  for (const char* name : {"grpc-status", "grpc-message", "x-checksum", "my_metadata",
                           "idempotency-key", "grpc-status-details-bin", "date"}) {
    EXPECT_FALSE(is_forbidden_in_trailers(name)) << name;
  }
}

}  // namespace
}  // namespace evenkeel
