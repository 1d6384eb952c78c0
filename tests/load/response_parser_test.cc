#include "evenkeel/load/response_parser.h"

#include <gtest/gtest.h>

namespace evenkeel {
namespace {

const std::string stream =
    ": a comment\n\n"
    "data: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n"
    "data: {\"choices\":[{\"delta\":{\"content\":\"Hel\"}}]}\n\n"
    "event: message\r\ndata:{\"choices\": [{\"delta\": {\"content\": \"\\\"lo\"}}]}\r\n\r\n"
    "data: {\"choices\":[{\"delta\":{\"reasoning_content\":\"hm\",\"content\":null}}]}\n\n"
    "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n"
    "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":5,"
    "\"prompt_tokens_details\":{\"cached_tokens\":4}}}\n\n"
    "data: [DONE]\n\n";

class LineEnds : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(StreamParser, LineEnds, testing::Values("\n", "\r\n", "\r"));

TEST_P(LineEnds, CountsTheSameForAnySplitOfTheStream) {
  std::string text;
  for (const char byte : stream) {
    if (byte == '\r') continue;
    byte == '\n' ? text += GetParam() : text += byte;
  }
  for (std::size_t size = 1; size <= text.size(); ++size) {
    StreamParser parser;
    unsigned events = 0;
    for (std::size_t at = 0; at < text.size(); at += size) {
      events += parser.feed(std::string_view(text).substr(at, size));
    }

    ASSERT_EQ(events, 3u) << size;
    ASSERT_EQ(parser.content_events(), 3u) << size;
    ASSERT_TRUE(parser.done()) << size;
    ASSERT_EQ(parser.error(), "") << size;
    parser.finish();
    ASSERT_EQ(parser.usage().completion_tokens, 5u) << size;
    ASSERT_EQ(parser.usage().cached_tokens, 4u) << size;
  }
}

TEST(StreamParser, ReportsEachEventWithTheBytesThatCompleteIt) {
  StreamParser parser;

  EXPECT_EQ(parser.feed("data: {\"content\":\"a\"}"), 0u);
  EXPECT_EQ(parser.feed("\n"), 0u);
  EXPECT_EQ(parser.feed("\n"), 1u);
  EXPECT_EQ(parser.feed("data: {\"content\":\"b\"}\n\ndata: {\"content\":\"c\"}\n\ndata: {"), 2u);
  EXPECT_FALSE(parser.done());
}

TEST(StreamParser, IsNotDoneWithoutTheDoneEvent) {
  StreamParser parser;

  parser.feed("data: {\"content\":\"a\"}\n\ndata: [DONE]");

  EXPECT_FALSE(parser.done());
}

TEST(StreamParser, KeepsTheFirstErrorInTheStream) {
  StreamParser parser;

  parser.feed("data: {\"content\":\"a\"}\n\ndata: { \"error\": {\"message\":\"one\"}}\n\n");
  parser.feed("data: {\"error\":{\"message\":\"two\"}}\n\n");

  EXPECT_EQ(parser.content_events(), 1u);
  EXPECT_EQ(parser.error(), "{ \"error\": {\"message\":\"one\"}}");
}

TEST(StreamParser, IsNotFooledByTextThatLooksLikeKeys) {
  StreamParser parser;

  parser.feed(R"(data: {"choices":[{"delta":{"content":""},"logprobs":"\"content\":\"x\""}]})"
              "\n\n");
  parser.feed(
      R"(data: {"choices":[{"delta":{"content":"\"error\" \"usage\":{\"completion_tokens\":9}"}}]})"
      "\n\n");

  EXPECT_EQ(parser.content_events(), 1u);
  EXPECT_EQ(parser.error(), "");
  parser.finish();
  EXPECT_EQ(parser.usage().completion_tokens, std::nullopt);
}

TEST(StreamParser, BuffersAtMostAMebibyteOfAnEndlessEvent) {
  StreamParser parser;
  const std::string piece(100'000, 'x');

  parser.feed("data: {\"content\":\"");
  for (int i = 0; i < 50; ++i) parser.feed(piece);

  EXPECT_EQ(parser.feed("\"}\n\n"), 1u);
}

TEST(ParseUsage, IsEmptyWhenAbsent) {
  EXPECT_EQ(parse_usage("{}").completion_tokens, std::nullopt);
  EXPECT_EQ(parse_usage(R"({"usage":null})").completion_tokens, std::nullopt);
  EXPECT_EQ(parse_usage(R"({"usage":{"completion_tokens":12}})").completion_tokens, 12u);
  EXPECT_EQ(parse_usage(R"({"usage":{"completion_tokens":12}})").cached_tokens, std::nullopt);
}

TEST(ParseFirstModel, IsTheFirstIdOfTheList) {
  EXPECT_EQ(parse_first_model(R"({"object":"list","data":[{"id":"org\/m","x":1},{"id":"n"}]})"),
            "org/m");
  EXPECT_EQ(parse_first_model(R"({"data":[]})"), "");
}

}  // namespace
}  // namespace evenkeel
