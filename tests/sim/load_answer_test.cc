#include "sim/load_answer.h"

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

TEST(StreamTally, CountsTheSameHoweverTheStreamIsCut) {
  for (std::size_t size = 1; size <= stream.size(); ++size) {
    StreamTally tally;
    unsigned events = 0;
    for (std::size_t at = 0; at < stream.size(); at += size) {
      events += tally.feed(std::string_view(stream).substr(at, size));
    }

    ASSERT_EQ(events, 3u) << size;
    ASSERT_EQ(tally.text_events(), 3u) << size;
    ASSERT_TRUE(tally.done()) << size;
    ASSERT_EQ(tally.error(), "") << size;
    ASSERT_EQ(tally.usage().completion_tokens, 5u) << size;
    ASSERT_EQ(tally.usage().cached_tokens, 4u) << size;
  }
}

TEST(StreamTally, ReportsEachEventWithTheBytesThatCompleteIt) {
  StreamTally tally;

  EXPECT_EQ(tally.feed("data: {\"content\":\"a\"}"), 0u);
  EXPECT_EQ(tally.feed("\n"), 0u);
  EXPECT_EQ(tally.feed("\n"), 1u);
  EXPECT_EQ(tally.feed("data: {\"content\":\"b\"}\n\ndata: {\"content\":\"c\"}\n\ndata: {"), 2u);
  EXPECT_FALSE(tally.done());
}

TEST(StreamTally, IsNotDoneByTheEndAlone) {
  StreamTally tally;

  tally.feed("data: {\"content\":\"a\"}\n\ndata: [DONE]");

  EXPECT_FALSE(tally.done());
}

TEST(StreamTally, KeepsTheFirstErrorInTheStream) {
  StreamTally tally;

  tally.feed("data: {\"content\":\"a\"}\n\ndata: { \"error\": {\"message\":\"one\"}}\n\n");
  tally.feed("data: {\"error\":{\"message\":\"two\"}}\n\n");

  EXPECT_EQ(tally.text_events(), 1u);
  EXPECT_EQ(tally.error(), "{ \"error\": {\"message\":\"one\"}}");
}

TEST(StreamTally, IsNotFooledByTextThatLooksLikeKeys) {
  StreamTally tally;

  tally.feed(R"(data: {"choices":[{"delta":{"content":""},"logprobs":"\"content\":\"x\""}]})"
             "\n\n");
  tally.feed(
      R"(data: {"choices":[{"delta":{"content":"\"error\" \"usage\":{\"completion_tokens\":9}"}}]})"
      "\n\n");

  EXPECT_EQ(tally.text_events(), 1u);
  EXPECT_EQ(tally.error(), "");
  EXPECT_EQ(tally.usage().completion_tokens, std::nullopt);
}

TEST(StreamTally, HoldsNoMoreThanAMebibyteOfAnEventWithoutEnd) {
  StreamTally tally;
  const std::string piece(100'000, 'x');

  tally.feed("data: {\"content\":\"");
  for (int i = 0; i < 50; ++i) tally.feed(piece);

  EXPECT_EQ(tally.feed("\"}\n\n"), 1u);
}

TEST(UsageOf, IsNothingWhereThereIsNone) {
  EXPECT_EQ(usage_of("{}").completion_tokens, std::nullopt);
  EXPECT_EQ(usage_of(R"({"usage":null})").completion_tokens, std::nullopt);
  EXPECT_EQ(usage_of(R"({"usage":{"completion_tokens":12}})").completion_tokens, 12u);
  EXPECT_EQ(usage_of(R"({"usage":{"completion_tokens":12}})").cached_tokens, std::nullopt);
}

TEST(FirstModelOf, IsTheFirstIdOfTheList) {
  EXPECT_EQ(first_model_of(R"({"object":"list","data":[{"id":"org\/m","x":1},{"id":"n"}]})"),
            "org/m");
  EXPECT_EQ(first_model_of(R"({"data":[]})"), "");
}

}  // namespace
}  // namespace evenkeel
