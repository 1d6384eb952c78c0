#include "wire/head_parser.h"

#include <gtest/gtest.h>

#include <string>

#include "wire/parsed_head.h"

namespace evenkeel {
namespace {

using Step = HeadParser::Step;
using Kind = HeadParser::Kind;

const std::string chat =
    "POST /v1/chat/completions?stream=1 HTTP/1.1\r\n"
    "Host: api.example:8443\r\n"
    "Content-Type: application/json\r\n"
    "X-Empty:\r\n"
    "X-Padded:  \t spaced out \t \r\n"
    "X-Utf8: gr\xc3\xbc\xc3\x9f\r\n"
    "Content-Length: 2\r\n"
    "\r\n";

/// The fault of a refused request; `internal` if it is accepted.
Fault fault_of(std::string_view bytes, const HeadLimits& limits = generous_limits) {
  const Parsed parsed = parse_request(bytes, limits);
  return parsed.step == Step::failed ? parsed.fault : Fault::internal;
}

TEST(HeadParser, ReadsARequest) {
  const Parsed parsed = parse_request(chat + "{}");

  ASSERT_TRUE(parsed.done());
  EXPECT_EQ(parsed.method, "POST");
  EXPECT_EQ(parsed.target, "/v1/chat/completions?stream=1");
  EXPECT_EQ(parsed.minor_version, 1);
  const std::vector<std::pair<std::string, std::string>> expected = {
      {"Host", "api.example:8443"}, {"Content-Type", "application/json"}, {"X-Empty", ""},
      {"X-Padded", "spaced out"},   {"X-Utf8", "gr\xc3\xbc\xc3\x9f"},     {"Content-Length", "2"}};
  EXPECT_EQ(parsed.fields, expected);
  EXPECT_EQ(parsed.consumed, chat.size());
}

TEST(HeadParser, ParsesTheSameByteByByte) {
  std::vector<std::size_t> every;
  for (std::size_t i = 1; i < chat.size(); ++i) every.push_back(i);

  EXPECT_EQ(parse_in_pieces(Kind::request, chat, every), parse_request(chat));
}

TEST(HeadParser, ParsesTheSameForEverySplitInThree) {
  const std::string_view small =
      "\r\nGET /a HTTP/1.0\r\nHost:h\r\nA_b: \tc d\r\nE:\r\n\r\nGET /next";
  const Parsed whole = parse_request(small);
  ASSERT_TRUE(whole.done());

  for (std::size_t first = 1; first < small.size(); ++first) {
    for (std::size_t second = first; second < small.size(); ++second) {
      ASSERT_EQ(parse_in_pieces(Kind::request, small, {first, second}), whole)
          << first << ' ' << second;
    }
  }
}

TEST(HeadParser, RejectsTheSameForEverySplit) {
  const std::string_view bad[] = {
      "GET / HTTP/1.1\r\nA: b\n\r\n",       "GET / HTTP/1.1\r\nA: b\r\r\n\r\n",
      "GET / HTTP/1.1\r\nA : b\r\n\r\n",    "GET / HTTP/1.1\r\nA: b\r\n c\r\n\r\n",
      "GET /\x01 HTTP/1.1\r\nA: b\r\n\r\n", "GET / HTTP/3.0\r\nA: b\r\n\r\n",
      "GET / HTTP/1.1\r\nnonsense\r\n\r\n", "\r\n\r\nGET / HTTP/1.1\r\n\r\n",
  };
  for (const auto bytes : bad) {
    const Parsed whole = parse_request(bytes);
    ASSERT_EQ(whole.step, Step::failed) << bytes;
    for (std::size_t cut = 1; cut < bytes.size(); ++cut) {
      ASSERT_EQ(parse_in_pieces(Kind::request, bytes, {cut}), whole) << bytes << " cut at " << cut;
    }
  }
}

TEST(HeadParser, NeedsMoreUntilTheEmptyLine) {
  for (std::size_t size = 0; size < chat.size(); ++size) {
    ASSERT_EQ(parse_request(chat.substr(0, size)).step, Step::more) << size;
  }
}

TEST(HeadParser, IgnoresOneEmptyLineBeforeARequestAndNoMore) {
  EXPECT_TRUE(parse_request("\r\nGET / HTTP/1.1\r\n\r\n").done());
  EXPECT_EQ(fault_of("\r\n\r\nGET / HTTP/1.1\r\n\r\n"), Fault::bad_request);
  EXPECT_EQ(fault_of("\nGET / HTTP/1.1\r\n\r\n"), Fault::bad_request);
}

TEST(HeadParser, RejectsNonHttpAtTheFirstByte) {
  const std::string_view others[] = {"\x16\x03\x01\x02", " GET", "\tGET", "{", {"\0", 1}, "\x80"};
  for (const auto bytes : others) {
    EXPECT_EQ(fault_of(bytes), Fault::bad_request) << bytes;
  }
}

TEST(HeadParser, RefusesLinesThatDoNotEndInCrLf) {
  EXPECT_EQ(fault_of("GET / HTTP/1.1\nHost: a\r\n\r\n"), Fault::bad_request);
  EXPECT_EQ(fault_of("GET / HTTP/1.1\r\nHost: a\n\r\n"), Fault::bad_request);
  EXPECT_EQ(fault_of("GET / HTTP/1.1\r\nHost: a\r\n\n"), Fault::bad_request);
  EXPECT_EQ(fault_of("GET / HTTP/1.1\rHost: a\r\n\r\n"), Fault::bad_request);
  EXPECT_EQ(fault_of("GET / HTTP/1.1\r\r\nHost: a\r\n\r\n"), Fault::bad_request);
}

TEST(HeadParser, RefusesControlCharactersAnywhere) {
  for (int c = 0; c < 0x20; ++c) {
    if (c == '\t') continue;
    const std::string odd(1, static_cast<char>(c));
    EXPECT_EQ(fault_of("GET / HTTP/1.1\r\nA: b" + odd + "c\r\n\r\n"), Fault::bad_request) << c;
    EXPECT_EQ(fault_of("GET / HTTP/1.1\r\nA" + odd + ": b\r\n\r\n"), Fault::bad_request) << c;
    EXPECT_EQ(fault_of("GET /" + odd + " HTTP/1.1\r\n\r\n"), Fault::bad_request) << c;
    EXPECT_EQ(fault_of("GE" + odd + "T / HTTP/1.1\r\n\r\n"), Fault::bad_request) << c;
    // A long value, so that the vectorised scan sees the character at every position.
    for (std::size_t at = 0; at < 40; ++at) {
      std::string value(40, 'x');
      value[at] = static_cast<char>(c);
      EXPECT_EQ(fault_of("GET / HTTP/1.1\r\nA: " + value + "\r\n\r\n"), Fault::bad_request) << c;
    }
  }
  EXPECT_EQ(fault_of("GET / HTTP/1.1\r\nA: b\x7f\r\n\r\n"), Fault::bad_request);
  EXPECT_EQ(fault_of("GET /\x7f HTTP/1.1\r\n\r\n"), Fault::bad_request);
}

TEST(HeadParser, AllowsTabsAndNonAsciiBytesInValuesOnly) {
  EXPECT_TRUE(parse_request("GET / HTTP/1.1\r\nA: b\tc\x80\xff\r\n\r\n").done());
  EXPECT_EQ(fault_of("GET / HTTP/1.1\r\nA\xc3: b\r\n\r\n"), Fault::bad_request);
  EXPECT_EQ(fault_of("GET /\xc3\xbc HTTP/1.1\r\n\r\n"), Fault::bad_request);
  EXPECT_EQ(fault_of("G\xc3T / HTTP/1.1\r\n\r\n"), Fault::bad_request);
}

TEST(HeadParser, RefusesBadFieldLines) {
  const std::string_view bad[] = {
      "Host : a",  "Host\t: a", ": a",       " : a",      "no colon",  "Ho st: a",  "Host",
      "(Host): a", "Ho\"st: a", "Host;: a",  "Host@x: a", "[Host]: a", "Host\\: a", "\"Host\": a",
      "Ho/st: a",  "{Host}: a", "<Host>: a", "Ho,st: a",  "Ho=st: a",  "Ho?st: a",
  };
  for (const auto line : bad) {
    EXPECT_EQ(fault_of("GET / HTTP/1.1\r\n" + std::string(line) + "\r\n\r\n"), Fault::bad_request)
        << line;
  }
}

TEST(HeadParser, RefusesFoldedLinesAndWhitespaceBeforeTheFirstField) {
  EXPECT_EQ(fault_of("GET / HTTP/1.1\r\nA: b\r\n c\r\n\r\n"), Fault::bad_request);
  EXPECT_EQ(fault_of("GET / HTTP/1.1\r\nA: b\r\n\tc\r\n\r\n"), Fault::bad_request);
  EXPECT_EQ(fault_of("GET / HTTP/1.1\r\n Host: a\r\n\r\n"), Fault::bad_request);
  EXPECT_EQ(fault_of("GET / HTTP/1.1\r\n \r\n\r\n"), Fault::bad_request);
  EXPECT_EQ(parse_request("GET / HTTP/1.1\r\nA: b\r\n c\r\n\r\n").detail, "folded header line");
}

TEST(HeadParser, RefusesBadRequestLines) {
  const std::string_view bad[] = {
      "GET",
      "GET /",
      "GET / ",
      "GET  / HTTP/1.1",
      "GET /  HTTP/1.1",
      "GET / HTTP/1.1 ",
      "GET\t/\tHTTP/1.1",
      "GET /a b HTTP/1.1",
      "G(T / HTTP/1.1",
      "GET / http/1.1",
      "GET / HTTP/1",
      "GET / HTTP/1.",
      "GET / HTTP/01.1",
      "GET / HTTP/1.01",
      "GET / HTTP/1.2",
      "GET / HTTP/1.1x",
      "GET / HTTP /1.1",
      "GET / HTTP/1.1\t",
      "GET / HTTP/-1.1",
      "GET / HTTP/4294967295.255",
      "GET / XTTP/1.1",
      "GET /a#b HTTP/1.1",
      "GET /\"a HTTP/1.1",
      "GET /<a> HTTP/1.1",
      "GET /a\\b HTTP/1.1",
      "/ HTTP/1.1",
      "GET HTTP/1.1",
  };
  for (const auto line : bad) {
    EXPECT_EQ(fault_of(std::string(line) + "\r\nHost: a\r\n\r\n"), Fault::bad_request) << line;
  }
}

TEST(HeadParser, AcceptsMajorVersionOneOnly) {
  for (const std::string_view version : {"HTTP/2.0", "HTTP/0.9", "HTTP/3.0", "HTTP/9.9"}) {
    EXPECT_EQ(fault_of("GET / " + std::string(version) + "\r\n\r\n"), Fault::version_not_supported);
  }
  EXPECT_EQ(fault_of("PRI / HTTP/1.1\r\nhost: a\r\n\r\n"), Fault::bad_request);
  EXPECT_EQ(fault_of("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), Fault::version_not_supported);
  EXPECT_EQ(parse_request("GET / HTTP/1.0\r\n\r\n").minor_version, 0);
}

TEST(HeadParser, AcceptsAnyTokenAsMethodUpToThirtyTwoBytes) {
  EXPECT_TRUE(parse_request("M-SEARCH / HTTP/1.1\r\n\r\n").done());
  EXPECT_TRUE(parse_request("!#$%&'*+-.^_`|~09azAZ / HTTP/1.1\r\n\r\n").done());
  EXPECT_TRUE(parse_request(std::string(32, 'A') + " / HTTP/1.1\r\n\r\n").done());
  EXPECT_EQ(fault_of(std::string(33, 'A') + " / HTTP/1.1\r\n\r\n"), Fault::bad_request);
}

TEST(HeadParser, RefusesTargetsAsSoonAsTheyExceedTheLimit) {
  const HeadLimits limits{.bytes = 4096, .fields = 10, .line = 100};
  const auto request = [](std::size_t size) {
    return "GET /" + std::string(size - 1, 'a') + " HTTP/1.1\r\n\r\n";
  };
  EXPECT_TRUE(parse_request(request(100), limits).done());
  EXPECT_EQ(fault_of(request(101), limits), Fault::uri_too_long);
  EXPECT_EQ(fault_of(request(3000).substr(0, 300), limits), Fault::uri_too_long);
}

TEST(HeadParser, RefusesHeadsAsSoonAsTheyExceedTheLimit) {
  const HeadLimits limits{.bytes = 200, .fields = 10, .line = 100};
  const std::string start = "GET / HTTP/1.1\r\nA: ";
  const auto request = [&](std::size_t size) {
    return start + std::string(size - start.size() - 4, 'a') + "\r\n\r\n";
  };
  EXPECT_TRUE(parse_request(request(200), limits).done());
  EXPECT_EQ(fault_of(request(201), limits), Fault::header_too_large);
  EXPECT_EQ(fault_of(request(1000).substr(0, 220), limits), Fault::header_too_large);
}

TEST(HeadParser, RefusesTooManyFields) {
  const HeadLimits limits{.bytes = 4096, .fields = 10, .line = 100};
  const auto request = [](int fields) {
    std::string text = "GET / HTTP/1.1\r\n";
    for (int i = 0; i < fields; ++i) text += "A: b\r\n";
    return text + "\r\n";
  };
  EXPECT_TRUE(parse_request(request(10), limits).done());
  EXPECT_EQ(fault_of(request(11), limits), Fault::header_too_large);
}

TEST(HeadParser, KeepsViewsValidWhenTheBufferGrows) {
  const HeadLimits limits{.bytes = 60 * 1024, .fields = 1000, .line = 8192};
  std::string text = "PATCH /some/where HTTP/1.1\r\nHost: h\r\nX-Empty:\r\n";
  for (int i = 0; i < 600; ++i) {
    text += "X-Number-" + std::to_string(i) + ": " + std::string(50, 'v') + "\r\n";
  }
  text += "\r\n";
  ASSERT_GT(text.size(), std::size_t{Block::small});

  const Parsed parsed = parse_request(text, limits);

  ASSERT_TRUE(parsed.done());
  EXPECT_EQ(parsed.method, "PATCH");
  EXPECT_EQ(parsed.target, "/some/where");
  ASSERT_EQ(parsed.fields.size(), 602u);
  EXPECT_EQ(parsed.fields[0].second, "h");
  EXPECT_EQ(parsed.fields[1].second, "");
  EXPECT_EQ(parsed.fields[601].first, "X-Number-599");
  EXPECT_EQ(parsed.fields[601].second, std::string(50, 'v'));
}

TEST(HeadParser, LeavesBytesAfterTheHeadInTheBuffer) {
  const ParsedHead parsed(Kind::request, "GET /1 HTTP/1.1\r\n\r\nGET /2 HTTP/1.1\r\n\r\n");

  ASSERT_TRUE(parsed.well_formed);
  EXPECT_EQ(parsed.buffer.bytes(), "GET /2 HTTP/1.1\r\n\r\n");
}

TEST(HeadParser, ReadsStatusLinesWithAndWithoutAPhrase) {
  EXPECT_EQ(parse_response("HTTP/1.1 200 OK\r\n\r\n").status, 200);
  EXPECT_EQ(parse_response("HTTP/1.0 404 Not Found At All\r\n\r\n").phrase, "Not Found At All");
  EXPECT_EQ(parse_response("HTTP/1.0 404 Not Found\r\n\r\n").minor_version, 0);
  EXPECT_TRUE(parse_response("HTTP/1.1 200 \r\n\r\n").done());
  EXPECT_TRUE(parse_response("HTTP/1.1 200\r\n\r\n").done());
  EXPECT_EQ(parse_response("HTTP/1.1 599 \xc3\xa4\r\n\r\n").phrase, "\xc3\xa4");
}

TEST(HeadParser, RefusesBadStatusLines) {
  const std::string_view bad[] = {
      "HTTP/1.1 99 X",  "HTTP/1.1 1000 X",  "HTTP/1.1 2OO X",   "HTTP/1.1 600 X",
      "HTTP/1.1 099 X", "HTTP/1.1  200 X",  "HTTP/2.0 200 X",   "HTTP/2 200",
      "HTTP/1.2 200 X", "http/1.1 200 X",   "HTTP/1.1",         "HTTP/1.1 ",
      "HTTP/1.1 20",    "HTTP/1.1 200X",    "HTTP/1.1 -20 X",   "HTTP/1.1 +20 X",
      "ICY 200 OK",     "HTTP/1.1\t200 OK", "HTTP/1.1 200\tOK", "HTTP/1.1 200 O\x01K",
      "HTTP/11 200 OK", " HTTP/1.1 200 OK",
  };
  for (const auto line : bad) {
    EXPECT_EQ(parse_response(std::string(line) + "\r\n\r\n").step, Step::failed) << line;
  }
}

TEST(HeadParser, AppliesTheSameFieldRulesToResponses) {
  for (const std::string_view line : {"A : b", "A: b\r\n c", "A: b\x01", "A", ": b", "A: b\rc"}) {
    EXPECT_EQ(parse_response("HTTP/1.1 200 OK\r\n" + std::string(line) + "\r\n\r\n").step,
              Step::failed)
        << line;
  }
}

TEST(HeadParser, SaysWhichHeadHasAControlCharacter) {
  EXPECT_EQ(parse_request("GET / HTTP/1.1\r\nHost: a\x01\r\n\r\n").detail,
            "control character in the request head");
  EXPECT_EQ(parse_response("HTTP/1.1 200 OK\r\nA: b\x01\r\n\r\n").detail,
            "control character in the response head");
}

TEST(HeadParser, ReportsWhetherAnyByteArrived) {
  ReadBuffer buffer;
  buffer.block = Block::take(Block::small);
  HeadParser parser(Kind::request, generous_limits);
  EXPECT_FALSE(parser.started());

  append(buffer, "G");
  EXPECT_EQ(parser.parse(buffer), Step::more);

  EXPECT_TRUE(parser.started());
}

}  // namespace
}  // namespace evenkeel
