#include "evenkeel/inference/event_editor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "evenkeel/inference/response_reader.h"

namespace evenkeel {
namespace {

/// A response that is changed as it is read.
class Stream {
 public:
  explicit Stream(bool removes_null)
      : Stream(EventEdits{.removes_usage = true, .removes_null = removes_null}) {}
  explicit Stream(EventEdits edits, ResponseFormat format = ResponseFormat::events)
      : editor_(std::move(edits)),
        reader_(ResponseReader::create(format, response_, {.editor = &editor_})) {}

  std::string_view pass(std::string_view bytes, bool last) {
    editor_.begin(bytes);
    reader_->read(bytes, Instant{});
    if (last) reader_->finish(Instant{});
    return editor_.pass(last);
  }

 private:
  EventEditor editor_;
  InferenceResponse response_;
  std::unique_ptr<ResponseReader> reader_;
};

std::string passed(std::string_view bytes, std::size_t first, std::size_t piece,
                   bool removes_null) {
  Stream stream(removes_null);
  const std::string begin(bytes.substr(0, first));  // for the sanitizers
  std::string out(stream.pass(begin, false));
  for (std::size_t at = first; at < bytes.size(); at += piece) {
    const std::string part(bytes.substr(at, piece));
    out += stream.pass(part, false);
  }
  out += stream.pass({}, true);
  return out;
}

void expect_passed(std::string_view bytes, std::string_view expected, bool removes_null = true) {
  if (bytes.find('\n') != std::string_view::npos) {  // lines that end in CR alone are lines too
    const auto with_cr = [](std::string_view text) {
      std::string replaced(text);
      std::erase(replaced, '\r');
      std::replace(replaced.begin(), replaced.end(), '\n', '\r');
      return replaced;
    };
    expect_passed(with_cr(bytes), with_cr(expected), removes_null);
  }
  EXPECT_EQ(passed(bytes, 0, 1, removes_null), expected) << "byte by byte";
  for (std::size_t cut = 0; cut <= bytes.size(); ++cut) {
    ASSERT_EQ(passed(bytes, cut, bytes.size(), removes_null), expected) << "cut at " << cut;
  }
}

#define HEAD \
  R"(data: {"id":"chatcmpl-9f","object":"chat.completion.chunk","created":17,"model":"m",)"

constexpr std::string_view delta =
    HEAD R"("choices":[{"index":0,"delta":{"content":"\"usage\":null"},"finish_reason":null}]})"
         "\n\n";
constexpr std::string_view done = "data: [DONE]\n\n";

TEST(EventEditor, RemovesTheEventThatHasUsageAndNoChoices) {
  const std::string before = std::string(delta) + ": ping\n\n" + std::string(delta);

  expect_passed(before +
                    HEAD R"("choices":[],"usage":{"prompt_tokens":9,"details":[{"usage":1}]}})"
                         "\n\n" +
                    std::string(done),
                before + std::string(done));
}

TEST(EventEditor, RemovesTheNullThatAnEngineAddsToEveryEvent) {
  expect_passed(R"(data: {"id":"1","choices":[{"text":"a","finish_reason":null}],"usage":null})"
                "\r\n\r\n"
                R"(data: {"usage": null, "choices":[{"text":"b","usage":null}]})"
                "\r\n\r\n"
                R"(data: {"choices":[], "usage": {"prompt_tokens": 1}})"
                "\r\n\r\n",
                R"(data: {"id":"1","choices":[{"text":"a","finish_reason":null}]})"
                "\r\n\r\n"
                R"(data: { "choices":[{"text":"b","usage":null}]})"
                "\r\n\r\n");
}

TEST(EventEditor, KeepsTheNullOfAnEngineThatAlwaysWritesIt) {
  const std::string event = R"(data: {"choices":[{"text":"a"}],"usage":null})"
                            "\n\n";

  expect_passed(event + R"(data: {"choices":[],"usage":{"prompt_tokens":1}})" + "\n\n", event,
                false);
}

TEST(EventEditor, KeepsUsageThatCameWithAChoice) {
  const std::string event = R"(data: {"choices":[{"text":"a"}],"usage":{"prompt_tokens":1}})"
                            "\n\n";

  expect_passed(event, event);
}

TEST(EventEditor, MovesTheFingerprintOfVllmBack) {
  expect_passed(
      std::string(delta) +
          HEAD
          R"("choices":[{"index":0,"delta":{"content":"}"},"finish_reason":"stop","stop_reason":null}]})"
          "\n\n" HEAD
          R"("choices":[],"usage":{"prompt_tokens":9},"system_fingerprint":"vllm-0.32.0-tp1-8a"})"
          "\n\n" +
          std::string(done),
      std::string(delta) +
          HEAD
          R"("choices":[{"index":0,"delta":{"content":"}"},"finish_reason":"stop","stop_reason":null}],"system_fingerprint":"vllm-0.32.0-tp1-8a"})"
          "\n\n" +
          std::string(done));
}

TEST(EventEditor, PassesStreamsWithoutUsageUnchanged) {
  for (const std::string_view text :
       {"", "\n", "\n\n", "data: {", "data: {\"usage\"", ": \"usage\"\n\n", "\r\n\r\nx",
        "data: {\"usage\":}\n\n", "data: \"usage\"\n\n", "data: {\"a\":1,\"usage\":\n\n\n\n"}) {
    expect_passed(text, text);
  }
  expect_passed(std::string(delta) + std::string(done), std::string(delta) + std::string(done));
  const std::string finished = R"(data: {"choices":[{"finish_reason":"stop"}]})";
  expect_passed(finished + "\n\n", finished + "\n\n");
  expect_passed(finished, finished);
}

TEST(EventEditor, PassesCompleteEventsOnAtOnceWithoutACopy) {
  Stream stream(true);

  EXPECT_EQ(stream.pass(delta, false).data(), delta.data());
  const std::string more = std::string(delta) + "data: {";
  EXPECT_EQ(stream.pass(more, false), delta);
  EXPECT_EQ(stream.pass("}\n", false), "");
  EXPECT_EQ(stream.pass("\n", false), "data: {}\n\n");
}

TEST(EventEditor, HoldsNoMoreThanOneEventCanBe) {
  const std::string text(2 * EventEditor::max_event, 'x');
  const std::string event = R"(data: {"choices":[],"usage":{"a":")" + text + "\"}}\n\n";
  Stream stream(true);

  std::string out;
  for (std::size_t at = 0; at < event.size(); at += 1000) {
    out += stream.pass(std::string_view(event).substr(at, 1000), false);
    ASSERT_LE(std::min(event.size(), at + 1000) - out.size(), EventEditor::max_event);
  }

  EXPECT_EQ(out, event);
  EXPECT_EQ(stream.pass("data: {\"choices\":[],\"usage\":{}}\n\n", false), "");
  EXPECT_EQ(stream.pass(delta, true), delta);
}

/// Expects the same wherever the bytes are cut.
void expect_renamed(ResponseFormat format, std::string_view bytes, std::string_view expected,
                    bool removes_usage = false) {
  const EventEdits edits{
      .removes_usage = removes_usage, .removes_null = true, .model = R"("client")"};
  for (std::size_t cut = 0; cut <= bytes.size(); ++cut) {
    Stream stream(edits, format);
    const std::string first(bytes.substr(0, cut));
    const std::string rest(bytes.substr(cut));
    std::string out(stream.pass(first, false));
    out += stream.pass(rest, false);
    out += stream.pass({}, true);
    ASSERT_EQ(out, expected) << "cut at " << cut;
  }
}

TEST(EventEditor, GivesEventsTheClientsNameOfTheModel) {
  expect_renamed(
      ResponseFormat::events,
      "data: {\"id\":\"1\",\"model\": \"a\\\"b\",\"choices\":[{\"delta\":{\"content\":\"x\"}}]}\n\n"
      "data: {\"id\":\"1\",\"model\": \"a\\\"b\",\"choices\":[{\"delta\":{\"content\":\"y\"}}]}\n\n"
      "data: [DONE]\n\n",
      "data: {\"id\":\"1\",\"model\": \"client\",\"choices\":[{\"delta\":{\"content\":\"x\"}}]}\n\n"
      "data: {\"id\":\"1\",\"model\": \"client\",\"choices\":[{\"delta\":{\"content\":\"y\"}}]}\n\n"
      "data: [DONE]\n\n");
  // OpenAI's responses, and Anthropic's messages.
  for (const std::string_view key : {"response", "message"}) {
    const auto event = [key](std::string_view model) {
      return "event: a\ndata: {\"type\":\"a\",\"" + std::string(key) +
             "\":{\"id\":\"1\",\"model\":" + std::string(model) + "}}\n\n";
    };
    expect_renamed(ResponseFormat::events, event("\"own\""), event("\"client\""));
  }
}

TEST(EventEditor, GivesDocumentsAndLinesTheClientsNameOfTheModel) {
  expect_renamed(ResponseFormat::json,
                 R"({ "object" : "list", "data" : [ { "model" : "own" } ], "model" : "own" })",
                 R"({ "object" : "list", "data" : [ { "model" : "own" } ], "model" : "client" })");
  expect_renamed(
      ResponseFormat::json_lines,
      "{\"model\":\"own\",\"response\":\"a\"}\n{\"model\":\"own\",\"done\":true}\n",
      "{\"model\":\"client\",\"response\":\"a\"}\n{\"model\":\"client\",\"done\":true}\n");
  for (const std::string_view text :
       {R"({"model":null})", R"({"model":1,"a":"model"})", R"({"tools":[{"model":"own"}]})",
        R"({"choices":[{"message":{"model":"own"}}]})", R"({"model":"own)", ""}) {
    expect_renamed(ResponseFormat::json, text, text);
  }
}

TEST(EventEditor, RenamesAndRemovesUsageAtOnce) {
  expect_renamed(ResponseFormat::events,
                 "data: {\"model\":\"m\",\"choices\":[{\"text\":\"a\"}],\"usage\":null}\n\n"
                 "data: {\"usage\":null,\"choices\":[{\"text\":\"b\"}],\"model\":\"m\"}\n\n"
                 "data: {\"model\":\"m\",\"choices\":[],\"usage\":{\"a\":1}}\n\n",
                 "data: {\"model\":\"client\",\"choices\":[{\"text\":\"a\"}]}\n\n"
                 "data: {\"choices\":[{\"text\":\"b\"}],\"model\":\"client\"}\n\n",
                 true);
}

}  // namespace
}  // namespace evenkeel
