#include "evenkeel/inference/response_reader.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>

namespace evenkeel {
namespace {

using namespace std::chrono_literals;

/// What a response reported, without the times.
struct Report {
  std::optional<std::uint64_t> prompt;
  std::optional<std::uint64_t> completion;
  std::optional<std::uint64_t> cached;
  std::string reason;
  std::uint32_t events = 0;

  bool operator==(const Report&) const = default;
  friend std::ostream& operator<<(std::ostream& out, const Report& report) {
    const auto show = [](const auto& count) { return count ? std::to_string(*count) : "-"; };
    return out << show(report.prompt) << " in, " << show(report.completion) << " out, "
               << show(report.cached) << " cached, " << report.reason << ", " << report.events
               << " events";
  }
};

Report report_of(const InferenceResponse& response) {
  return {.prompt = response.prompt_tokens,
          .completion = response.completion_tokens,
          .cached = response.cached_tokens,
          .reason = response.finish_reason,
          .events = response.output_events};
}

Report read(ResponseFormat format, std::string_view bytes, std::size_t first, std::size_t piece) {
  InferenceResponse response;
  const auto reader = ResponseReader::create(format, response);
  reader->read(std::string(bytes.substr(0, first)), Instant{} + 1s);
  for (std::size_t at = first; at < bytes.size(); at += piece) {
    const std::string part(bytes.substr(at, piece));  // for the sanitizers
    reader->read(part, Instant{} + 1s);
  }
  reader->finish(Instant{} + 1s);
  return report_of(response);
}

/// However the bytes are cut.
void expect_report(ResponseFormat format, std::string_view bytes, const Report& expected) {
  EXPECT_EQ(read(format, bytes, bytes.size(), 1), expected);
  EXPECT_EQ(read(format, bytes, 0, 1), expected) << "byte by byte";
  for (std::size_t cut = 0; cut <= bytes.size(); ++cut) {
    ASSERT_EQ(read(format, bytes, cut, bytes.size()), expected) << "cut at " << cut;
  }
}

void expect_events(std::string_view bytes, const Report& expected) {
  expect_report(ResponseFormat::events, bytes, expected);
  std::string with_returns;
  for (const char byte : bytes) {
    if (byte == '\n') with_returns += '\r';
    with_returns += byte;
  }
  expect_report(ResponseFormat::events, with_returns, expected);
  std::erase(with_returns, '\n');
  expect_report(ResponseFormat::events, with_returns, expected);
}

#define CHUNK \
  R"(data: {"id":"chatcmpl-9f","object":"chat.completion.chunk","created":1763863000,"model":"m",)"

/// However the bytes are cut.
std::string id_of(ResponseFormat format, std::string_view bytes, bool wants_id = true) {
  std::string found = "none";
  for (std::size_t cut = 0; cut <= bytes.size(); ++cut) {
    InferenceResponse response;
    const auto reader = ResponseReader::create(format, response, {.id = wants_id});
    reader->read(std::string(bytes.substr(0, cut)), Instant{} + 1s);
    reader->read(std::string(bytes.substr(cut)), Instant{} + 1s);
    if (cut > 0 && response.id != found) return "not the same at " + std::to_string(cut);
    found = response.id;
  }
  return found;
}

TEST(ResponseReader, FindsTheIdOfAResponse) {
  constexpr std::string_view document =
      R"({"object":"response","output":[{"id":"msg_1","content":[{"text":"x"}]}],)"
      R"("reasoning":{"id":"no"},"id":"resp_1"})";
  constexpr std::string_view events =
      "event: response.created\ndata: {\"type\":\"response.created\",\"sequence_number\":0,"
      "\"response\":{\"id\":\"resp_1\",\"output\":[]}}\n\n"
      "event: response.output_item.added\ndata: {\"item\":{\"id\":\"msg_1\"}}\n\n";

  EXPECT_EQ(id_of(ResponseFormat::json, document), "resp_1");
  EXPECT_EQ(id_of(ResponseFormat::events, events), "resp_1");
  EXPECT_EQ(id_of(ResponseFormat::events, events, false), "");
  EXPECT_EQ(id_of(ResponseFormat::json, document, false), "");
}

TEST(ResponseReader, CountsEventsOfAChatThatHaveOutput) {
  expect_events(
      CHUNK
      R"("choices":[{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}],"prompt_token_ids":null})"
      "\n\n" CHUNK
      R"("choices":[{"index":0,"delta":{"content":"Hel"},"logprobs":null,"finish_reason":null,"token_ids":null}]})"
      "\n\n: ping\n\n" CHUNK
      R"("choices":[{"index":0,"delta":{"content":"lo \"usage\":{"},"logprobs":null,"finish_reason":null}]})"
      "\n\n" CHUNK
      R"("choices":[{"index":0,"delta":{"content":""},"logprobs":null,"finish_reason":"length","stop_reason":null}]})"
      "\n\n" CHUNK
      R"("choices":[],"usage":{"prompt_tokens":9,"total_tokens":13,"completion_tokens":4,"prompt_tokens_details":{"cached_tokens":8}}})"
      "\n\ndata: [DONE]\n\n",
      {.prompt = 9, .completion = 4, .cached = 8, .reason = "length", .events = 2});
}

TEST(ResponseReader, TakesReasoningRefusalsAndCallsOfToolsForOutput) {
  expect_events(
      CHUNK
      R"("choices":[{"index":0,"delta":{"role":"assistant","content":null},"finish_reason":null}],"usage":null})"
      "\n\n" CHUNK
      R"("choices":[{"index":0,"delta":{"reasoning_content":"Hm"},"finish_reason":null}],"usage":null})"
      "\n\n" CHUNK
      R"("choices":[{"index":0,"delta":{"reasoning":"m"},"finish_reason":null}],"usage":null})"
      "\n\n" CHUNK
      R"("choices":[{"index":0,"delta":{"refusal":"No"},"finish_reason":null}],"usage":null})"
      "\n\n" CHUNK
      R"("choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"call_1","type":"function","function":{"name":"weather","arguments":""}}]},"finish_reason":null}],"usage":null})"
      "\n\n" CHUNK
      R"("choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"usage\":{\"prompt_tokens\":7}}"}}]},"finish_reason":null}],"usage":null})"
      "\n\n" CHUNK
      R"("choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}],"usage":null})"
      "\n\ndata: [DONE]\n\n",
      {.reason = "tool_calls", .events = 5});
}

TEST(ResponseReader, IsNotMisledByEventsThatBeginAlike) {
  expect_events(
      R"(data: {"id":"1","choices":[{"index":0,"delta":{"content":"a"}}]})"
      "\n\n"
      R"(data: {"id":"1","choices":[{"index":0,"delta":{"content":"b"}}]})"
      "\n\n"
      R"(data: {"id":"12","choices":[{"index":0,"delta":{"content":"c"}}]})"
      "\n\n"
      R"(data: {"id":"1","choices":[],"usage":{"prompt_tokens":2}})"
      "\n\n"
      R"(data: {"usage":{"completion_tokens":3},"choices":[{"finish_reason":"stop"}]})"
      "\n\n"
      R"(data: {"usage":{"completion_tokens":3},"choices":[{"text":"d"}],"usage":{"completion_tokens":4}})"
      "\n\n",
      {.prompt = 2, .completion = 4, .reason = "stop", .events = 4});
}

TEST(ResponseReader, EndsAnEventAtABlankLineHoweverItsLinesEnd) {
  const std::string text = R"(data: {"text":"a"})";

  expect_report(ResponseFormat::events, text + "\n\r\r\n" + text + "\r\n\r\n", {.events = 2});
}

TEST(ResponseReader, KeepsTheReasonOfTheFirstChoice) {
  expect_events(
      R"(data: {"choices":[{"index":1,"text":"b","finish_reason":"stop"}]})"
      "\n\n"
      R"(data: {"choices":[{"index":0,"text":"a","finish_reason":"length"},{"index":1,"text":"","finish_reason":"stop"}]})"
      "\n\n",
      {.reason = "length", .events = 2});
}

TEST(ResponseReader, CountsTheLastUsageOfAStreamThatRepeatsIt) {
  expect_events(
      R"(data: {"choices":[{"index":0,"text":"a","finish_reason":null}],"usage":{"prompt_tokens":5,"completion_tokens":1}})"
      "\n\n"
      R"(data: {"choices":[{"index":0,"text":"b","finish_reason":null}],"usage":{"prompt_tokens":5,"completion_tokens":2}})"
      "\n\n",
      {.prompt = 5, .completion = 2, .events = 2});
}

TEST(ResponseReader, ReadsTheEventsOfOpenAiResponses) {
  expect_events(
      "event: response.created\n"
      R"(data: {"response":{"id":"resp_1","status":"in_progress","usage":null},"sequence_number":0,"type":"response.created"})"
      "\n\nevent: response.output_text.delta\n"
      R"(data: {"content_index":0,"delta":"Hel","item_id":"msg_1","output_index":0,"type":"response.output_text.delta"})"
      "\n\nevent: response.output_text.delta\n"
      R"(data: {"content_index":0,"delta":"lo","item_id":"msg_1","output_index":0,"type":"response.output_text.delta"})"
      "\n\nevent: response.output_text.done\n"
      R"(data: {"content_index":0,"item_id":"msg_1","output_index":0,"text":"Hello","type":"response.output_text.done"})"
      "\n\nevent: response.completed\n"
      R"(data: {"response":{"id":"resp_1","status":"completed","output":[{"type":"message","content":[{"text":"Hello","type":"output_text"}]}],"usage":{"input_tokens":18,"input_tokens_details":{"cached_tokens":16},"output_tokens":2,"output_tokens_details":{"reasoning_tokens":0},"total_tokens":20}},"type":"response.completed"})"
      "\n\n",
      {.prompt = 18, .completion = 2, .cached = 16, .reason = "completed", .events = 2});
}

TEST(ResponseReader, AddsTheCachedTokensOfAnthropicToItsInput) {
  expect_events(
      "event: message_start\n"
      R"(data: {"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","content":[],"model":"m","stop_reason":null,"usage":{"input_tokens":25,"cache_creation_input_tokens":10,"cache_read_input_tokens":100,"output_tokens":1}}})"
      "\n\nevent: content_block_start\n"
      R"(data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}})"
      "\n\nevent: ping\ndata: {\"type\": \"ping\"}\n\nevent: content_block_delta\n"
      R"(data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hello"}})"
      "\n\nevent: content_block_delta\n"
      R"(data: {"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{\"a\""}})"
      "\n\nevent: message_delta\n"
      R"(data: {"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null},"usage":{"output_tokens":15}})"
      "\n\nevent: message_stop\ndata: {\"type\":\"message_stop\"}\n\n",
      {.prompt = 135, .completion = 15, .cached = 100, .reason = "tool_use", .events = 2});
}

TEST(ResponseReader, ReadsTgi) {
  expect_events(
      R"(data:{"index":1,"token":{"id":264,"text":" a","logprob":-0.9,"special":false},"generated_text":null,"details":null})"
      "\n\n"
      R"(data:{"index":2,"token":{"id":2,"text":"</s>","logprob":-0.1,"special":true},"generated_text":" a","details":{"finish_reason":"eos_token","generated_tokens":2,"input_length":7,"seed":null}})"
      "\n\n",
      {.prompt = 7, .completion = 2, .reason = "eos_token", .events = 2});
}

TEST(ResponseReader, ReadsSglangsGenerate) {
  expect_events(
      R"(data: {"text":" a","output_ids":[264],"meta_info":{"id":"1","finish_reason":null,"prompt_tokens":6,"weight_version":"default","total_retractions":0,"completion_tokens":1,"cached_tokens":4}})"
      "\n\n"
      R"(data: {"text":" a b","output_ids":[264,9],"meta_info":{"id":"1","finish_reason":{"type":"length","length":2},"prompt_tokens":6,"completion_tokens":2,"cached_tokens":4,"e2e_latency":0.1}})"
      "\n\ndata: [DONE]\n\n",
      {.prompt = 6, .completion = 2, .cached = 4, .reason = "length", .events = 2});
}

TEST(ResponseReader, TakesTheTimingsOfLlamaCppWhereItGivesNoUsage) {
  expect_events(
      R"(data: {"choices":[{"finish_reason":null,"index":0,"delta":{"role":"assistant","content":null}}],"created":1,"model":"m","object":"chat.completion.chunk"})"
      "\n\n"
      R"(data: {"choices":[{"finish_reason":null,"index":0,"delta":{"content":"a"}}],"created":1,"model":"m","object":"chat.completion.chunk"})"
      "\n\n"
      R"(data: {"choices":[{"finish_reason":"stop","index":0,"delta":{}}],"created":1,"model":"m","timings":{"cache_n":236,"prompt_n":1,"prompt_ms":30.958,"predicted_n":35,"predicted_ms":661.064}})"
      "\n\ndata: [DONE]\n\n",
      {.prompt = 237, .completion = 35, .cached = 236, .reason = "stop", .events = 1});
  expect_events(
      R"(data: {"index":0,"content":"a","tokens":[12],"stop":false,"id_slot":0,"tokens_predicted":1,"tokens_evaluated":5})"
      "\n\n"
      R"(data: {"index":0,"content":"","tokens":[],"id_slot":0,"stop":true,"model":"m","tokens_predicted":2,"tokens_evaluated":5,"generation_settings":{"stop":[],"n_predict":2},"prompt":"x","stop_type":"limit","tokens_cached":6,"timings":{"cache_n":3,"prompt_n":2,"predicted_n":2}})"
      "\n\n",
      {.prompt = 5, .completion = 2, .cached = 3, .reason = "limit", .events = 1});
}

TEST(ResponseReader, ReadsTriton) {
  expect_events(
      R"(data: {"model_name":"ensemble","model_version":"1","text_output":"Hel"})"
      "\n\n"
      R"(data: {"model_name":"ensemble","model_version":"1","text_output":""})"
      "\n\n"
      R"(data: {"model_name":"tensors","outputs":[{"name":"OUT","datatype":"FP32","shape":[2],"data":[0.5,1.5]}]})"
      "\n\n",
      {.events = 2});
}

TEST(ResponseReader, ReadsOllama) {
  expect_report(
      ResponseFormat::json_lines,
      R"({"model":"m","created_at":"2026-11-23T00:00:00Z","message":{"role":"assistant","content":"Hi"},"done":false})"
      "\n"
      R"({"model":"m","created_at":"2026-11-23T00:00:00Z","message":{"role":"assistant","content":"","tool_calls":[{"function":{"name":"f","arguments":{"a":"b"}}}]},"done":false})"
      "\n"
      R"({"model":"m","message":{"role":"assistant","content":""},"done_reason":"stop","done":true,"total_duration":400,"prompt_eval_count":26,"eval_count":3})"
      "\n",
      {.prompt = 26, .completion = 3, .reason = "stop", .events = 2});
  expect_report(
      ResponseFormat::json_lines,
      R"({"model":"m","response":"a","done":false})"
      "\n"
      R"({"model":"m","response":"","done":true,"done_reason":"length","context":[1,2],"prompt_eval_count":2,"eval_count":1})"
      "\n",
      {.prompt = 2, .completion = 1, .reason = "length", .events = 1});
}

TEST(ResponseReader, ReadsWholeDocuments) {
  expect_report(
      ResponseFormat::json,
      R"({"id":"chatcmpl-1","choices":[{"index":0,"message":{"role":"assistant","content":"\"usage\": {\"prompt_tokens\": 1}","tool_calls":[]},"finish_reason":"stop","stop_reason":null},{"index":1,"message":{},"finish_reason":"length"}],"usage":{"prompt_tokens":9,"total_tokens":29,"completion_tokens":20,"prompt_tokens_details":null},"prompt_logprobs":null})",
      {.prompt = 9, .completion = 20, .reason = "stop"});
  expect_report(
      ResponseFormat::json,
      R"({"id":"rerank-1","usage":{"total_tokens":56},"results":[{"index":1,"relevance_score":0.9}]})",
      {.prompt = 56});
  expect_report(
      ResponseFormat::json,
      R"([{"generated_text":"a b","details":{"finish_reason":"length","generated_tokens":2,"prefill":[{"id":1}]}}])",
      {.completion = 2, .reason = "length"});
  expect_report(ResponseFormat::json, R"({"outputs":[{"name":"OUT","data":[1,2]}]})", {});
}

TEST(ResponseReader, TakesNoCountThatNoRequestCanHave) {
  for (const char* count : {"9000000000000000000", "18446744073709551615", "1000000001"}) {
    expect_report(ResponseFormat::json,
                  std::string(R"({"usage":{"prompt_tokens":)") + count +
                      R"(,"completion_tokens":1000000000}})",
                  {.completion = 1'000'000'000});
  }
}

TEST(ResponseReader, PassesOverWhatIsNotUnderstood) {
  expect_events("data: [DONE]\n\n", {});
  expect_events("data: {\"choices\":[{\n\ndata: {\"choices\":[{\"text\":\"a\"}]}\n\n",
                {.events = 1});
  expect_events("id: 7\nretry: 10\n\ndata:\n\ndata: \n\n", {});
}

TEST(ResponseReader, TakesNoSignOfLifeForOutput) {
  const std::string_view events[] = {
      ": \n\n",
      ":\n\n",
      ": keep-alive\n\n",
      "event: ping\ndata: {\"time\":1}\n\n",
      "event:ping\ndata: 2026-11-27 15:00\n\n",
      "data: {\"type\":\"ping\"}\n\n",
      "data: ping\n\n",
      "event: heartbeat\ndata: now\n\n",
      "event: progress\ndata: {\"done\":3,\"of\":8}\n\n",
      "data: {\"progress\":0.5}\n\n",
      "data: []\n\n",
      "data: [ ]\n\n",
      "data: [DONE]\n\n",
      "data: [{\"progress\":0.5}]\n\n",
      "data: [{\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}]\n\n",
      "data: {\"status\":\"in_progress\"}\n\n",
      "data: {\"usage\":{\"prompt_tokens\":3}}\n\n",
      "data: {\"error\":{\"message\":\"out of memory\"}}\n\n",
      // OpenAI's chat and completions, with the filter results of Azure.
      R"(data: {"choices":[],"prompt_filter_results":[{"prompt_index":0,"content":"safe"}]})"
      "\n\n",
      R"(data: {"choices":[{"index":0,"delta":{"role":"assistant"}}]})"
      "\n\n",
      R"(data: {"choices":[{"index":0,"delta":{"role":"assistant","content":"","refusal":null}}]})"
      "\n\n",
      R"(data: {"choices":[{"index":0,"text":""}]})"
      "\n\n",
      // llama.cpp.
      R"(data: {"choices":[{"index":0,"delta":{"role":"assistant","content":null}}],"prompt_progress":{"total":90,"cache":0,"processed":30,"time_ms":12}})"
      "\n\n",
      R"(data: {"index":0,"content":"","tokens":[],"stop":false,"prompt_progress":{"total":90,"cache":0,"processed":30,"time_ms":12}})"
      "\n\n",
      // OpenAI's responses.
      "event: response.in_progress\n"
      R"(data: {"response":{"id":"r","status":"in_progress","instructions":"Be nice"},"type":"response.in_progress"})"
      "\n\n",
      R"(data: {"item":{"id":"m","type":"message","status":"in_progress","content":[]},"type":"response.output_item.added"})"
      "\n\n",
      R"(data: {"item_id":"m","part":{"type":"output_text","text":""},"type":"response.content_part.added"})"
      "\n\n",
      // Anthropic's messages.
      "event: message_start\n"
      R"(data: {"type":"message_start","message":{"id":"m","type":"message","role":"assistant","model":"m","content":[]}})"
      "\n\n",
      R"(data: {"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":""}})"
      "\n\n",
      // SGLang, TGI.
      R"(data: {"text":"","meta_info":{"id":"1"}})"
      "\n\n",
      R"(data: {"index":0,"token":{"id":1,"text":"","special":true}})"
      "\n\n",
  };
  for (const std::string_view event : events) {
    SCOPED_TRACE(event);
    InferenceResponse response;
    const auto reader = ResponseReader::create(ResponseFormat::events, response);
    for (const char& byte : event) reader->read({&byte, 1}, Instant{} + 1s);
    EXPECT_EQ(response.output_events, 0u);
    reader->read(event, Instant{} + 1s);
    EXPECT_EQ(response.output_events, 0u);
  }
  expect_report(ResponseFormat::json_lines,
                "\n{\"model\":\"m\",\"response\":\"\",\"done\":false}\n", {});
}

TEST(ResponseReader, TakesTheDataOfNoKnownDialectForOutput) {
  for (const std::string_view data : {R"({"answer":"Hi"})", "Hi", R"("Hi")", R"({"message":"Hi"})",
                                      R"({"model_name":"m","reply":"Hi"})", R"([{"answer":"Hi"}])",
                                      R"( [ {"answer":"Hi"}])", R"(["Hi"])", "[7]", "[[-1]]"}) {
    SCOPED_TRACE(data);
    expect_events(": ping\n\nevent: ping\ndata: {}\n\nevent: answer\ndata: " + std::string(data) +
                      "\n\ndata: [DONE]\n\n",
                  {.events = 1});
  }
}

TEST(ResponseReader, TakesSoundAndPartsOfContentForOutput) {
  expect_events(R"(data: {"choices":[{"delta":{"audio":{"id":"a","transcript":"Hi"}}}]})"
                "\n\n"
                R"(data: {"choices":[{"delta":{"audio":{"data":"UklGRg=="}}}]})"
                "\n\n"
                R"(data: {"choices":[{"delta":{"content":[{"type":"text","text":"Hi"}]}}]})"
                "\n\n"
                R"(data: {"type":"response.output_audio.delta","item_id":"m","delta":"UklGRg=="})"
                "\n\n",
                {.events = 4});
}

TEST(ResponseReader, CountsAnEventThatIsCutOffByTheEnd) {
  expect_events("data: {\"choices\":[{\"text\":\"a\"}]}\n", {.events = 1});
}

TEST(ResponseReader, CountsTheMessagesOfAGrpcStream) {
  std::string bytes;
  for (const std::string message : {"one", "", "three of them"}) {
    bytes += std::string("\0\0\0\0", 4) + static_cast<char>(message.size()) + message;
  }
  expect_report(ResponseFormat::grpc_stream, bytes, {.events = 2});
}

TEST(ResponseReader, NotesWhenOutputCameAndTheLongestGap) {
  InferenceResponse response;
  const auto reader = ResponseReader::create(ResponseFormat::events, response);
  const std::string event = "data: {\"choices\":[{\"text\":\"a\"}]}\n\n";
  const Instant start{1h};

  reader->read("data: {\"choices\":[{\"text\":\"\"}]}\n\n", start);
  reader->read(event.substr(0, 20), start + 1s);
  reader->read(event.substr(20) + event, start + 2s);
  reader->read(event, start + 5s);
  reader->read(event, start + 6s);
  reader->read("data: [DONE]\n\n", start + 9s);
  reader->finish(start + 10s);

  EXPECT_EQ(response.output_events, 4u);
  EXPECT_EQ(response.first_output, start + 2s);
  EXPECT_EQ(response.last_output, start + 6s);
  EXPECT_EQ(response.max_gap, 3s);
  EXPECT_EQ(response.time_per_output_token(), std::nullopt) << "no engine has counted the tokens";
  response.completion_tokens = 5;
  EXPECT_EQ(response.time_per_output_token(), 1s);
}

TEST(ResponseFormats, AreToldByTheFields) {
  EXPECT_EQ(response_format_of("text/event-stream; charset=utf-8", "", false),
            ResponseFormat::events);
  EXPECT_EQ(response_format_of("Application/JSON", "identity", false), ResponseFormat::json);
  EXPECT_EQ(response_format_of("application/x-ndjson", "", false), ResponseFormat::json_lines);
  EXPECT_EQ(response_format_of("application/json", "gzip", false), std::nullopt);
  EXPECT_EQ(response_format_of("application/jsonp", "", false), std::nullopt);
  EXPECT_EQ(response_format_of("text/html", "", false), std::nullopt);
  EXPECT_EQ(response_format_of("application/grpc", "", true), ResponseFormat::grpc_stream);
  EXPECT_EQ(response_format_of("application/grpc", "", false), std::nullopt);
}

}  // namespace
}  // namespace evenkeel
