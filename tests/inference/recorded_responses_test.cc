// Responses that real servers gave to real clients (tests/e2e/engines/recording.py).
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>

#include "evenkeel/inference/response_reader.h"
#include "inference/recorded.h"

namespace evenkeel {
namespace {

using namespace std::chrono_literals;

constexpr std::optional<std::uint64_t> none;

struct Recorded {
  std::string_view file;
  std::optional<std::uint64_t> prompt;  ///< as the engine reports it
  std::optional<std::uint64_t> completion;
  std::optional<std::uint64_t> cached;
  std::string_view reason;
  std::uint32_t events;  ///< of a stream, with output

  friend std::ostream& operator<<(std::ostream& out, const Recorded& one) {
    return out << one.file;
  }
};

class RecordedResponses : public testing::TestWithParam<Recorded> {};

TEST_P(RecordedResponses, ReportWhatTheEngineReported) {
  const Recorded& one = GetParam();
  const std::string body = read_recorded(std::filesystem::path(EVENKEEL_SOURCE_DIR) /
                                         "tests/inference/responses" / one.file);
  const bool streams = one.file.ends_with(".sse");
  const auto format =
      response_format_of(streams ? "text/event-stream" : "application/json", "", false);
  ASSERT_TRUE(format);
  for (const std::size_t piece : {body.size(), std::size_t{1000}, std::size_t{1}}) {
    InferenceResponse response;
    const auto reader = ResponseReader::create(*format, response);
    for (std::size_t at = 0; at < body.size(); at += piece) {
      reader->read(std::string_view(body).substr(at, piece), Instant{} + 1s);
    }
    reader->finish(Instant{} + 1s);
    EXPECT_EQ(response.prompt_tokens, one.prompt);
    EXPECT_EQ(response.completion_tokens, one.completion);
    EXPECT_EQ(response.cached_tokens, one.cached);
    EXPECT_EQ(response.finish_reason, one.reason);
    if (streams) {
      EXPECT_EQ(response.output_events, one.events);
    }
  }
}

constexpr Recorded recorded[] = {
    {"llamacpp/broken_chat_two_choices_stream.sse", 49, 8, 48, "length", 9},
    {"llamacpp/broken_message_stream.sse", 49, 0, 48, "", 5},
    {"llamacpp/broken_response_rounds_stream.sse", none, none, none, "", 6},
    {"llamacpp/chat.json", 49, 8, 0, "length", 0},
    {"llamacpp/chat_long_stream.sse", 1834, 8, 17, "length", 8},
    {"llamacpp/chat_stream.sse", 49, 8, 48, "length", 8},
    {"llamacpp/chat_stream_with_usage.sse", 49, 8, 48, "length", 8},
    {"llamacpp/chat_two_choices.json", 49, 8, 48, "length", 0},
    {"llamacpp/chat_two_choices_stream.sse", 49, 8, 48, "length", 16},
    {"llamacpp/completion_prompts.json", 6, 8, 5, "length", 0},
    {"llamacpp/completion_stream.sse", 13, 8, 12, "length", 8},
    {"llamacpp/completion_stream_with_usage.sse", 13, 8, 12, "length", 8},
    {"llamacpp/completion_tokens.json", 4, 8, 0, "length", 0},
    {"llamacpp/curl_completion.json", 13, 8, 12, "limit", 0},
    {"llamacpp/curl_completion_stream.sse", 13, 8, 12, "limit", 8},
    {"llamacpp/embedding.json", 6, none, none, "", 0},
    {"llamacpp/embeddings_as_base64.json", 19, none, none, "", 0},
    {"llamacpp/message.json", 49, 8, 48, "max_tokens", 0},
    {"llamacpp/message_stream.sse", 49, 8, 48, "max_tokens", 8},
    {"llamacpp/response.json", 49, 8, 48, "completed", 0},
    {"llamacpp/response_rounds_stream.sse", 176, 8, 4, "completed", 8},
    {"llamacpp/response_stream.sse", 49, 8, 48, "completed", 8},
    {"mlserver/curl_infer.json", none, none, none, "", 0},
    {"mlserver/curl_infer_stream.sse", none, none, none, "", 6},
    {"triton/curl_generate.json", none, none, none, "", 0},
    {"triton/curl_generate_stream.sse", none, none, none, "", 6},  // the model names the output
    {"triton/curl_infer.json", none, none, none, "", 0},
    {"vllm/chat.json", 20, 8, none, "length", 0},
    {"vllm/chat_log_probabilities_stream.sse", none, none, none, "length", 4},
    {"vllm/chat_stream.sse", none, none, none, "length", 8},
    {"vllm/chat_stream_with_usage.sse", 20, 8, none, "length", 8},
    {"vllm/chat_two_choices.json", 20, 16, none, "length", 0},
    {"vllm/chat_two_choices_stream.sse", none, none, none, "length", 16},
    {"vllm/completion_prompts.json", 21, 24, none, "length", 0},
    {"vllm/completion_stream.sse", none, none, none, "length", 8},
    {"vllm/completion_stream_with_usage.sse", 8, 8, none, "length", 7},
    {"vllm/completion_tokens.json", 4, 8, none, "length", 0},
    {"vllm/curl_statistics_in_the_stream.sse", 20, 4, none, "length", 4},
    {"vllm/message.json", 20, 8, none, "max_tokens", 0},
    {"vllm/message_rounds_stream.sse", 138, 8, none, "max_tokens", 8},
    {"vllm/message_stream.sse", 20, 8, none, "max_tokens", 7},
    {"vllm/response.json", 20, 8, 0, "max_output_tokens", 0},
    {"vllm/response_rounds_stream.sse", 103, 8, 0, "max_output_tokens", 7},
    {"vllm/response_stream.sse", 20, 8, 0, "max_output_tokens", 8},
};

INSTANTIATE_TEST_SUITE_P(All, RecordedResponses, testing::ValuesIn(recorded));

}  // namespace
}  // namespace evenkeel
