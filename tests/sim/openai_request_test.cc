#include "sim/openai_request.h"

#include <gtest/gtest.h>

#include "sim/kserve_request.h"

namespace evenkeel {
namespace {

Result<OpenAiRequest> chat(std::string body) {
  return parse_openai_request(OpenAiApi::chat_completions, body);
}

TEST(OpenAiRequest, ReadsAChat) {
  auto request = chat(R"({
    "model": "llama", "stream": true, "stream_options": {"include_usage": true, "x": [1]},
    "messages": [{"role": "system", "content": "Be brief."},
                 {"role": "user", "name": "eve", "content": "Hi \u00e9\n"}],
    "max_tokens": 50, "max_completion_tokens": 20, "min_tokens": 3, "n": 2, "ignore_eos": true,
    "seed": 42, "cache_salt": "tenant"})");

  ASSERT_TRUE(request.ok()) << request.error().detail;
  EXPECT_EQ(request->model, "llama");
  EXPECT_TRUE(request->stream);
  EXPECT_TRUE(request->include_usage);
  EXPECT_TRUE(request->ignore_eos);
  EXPECT_EQ(request->max_tokens, 20u);
  EXPECT_EQ(request->min_tokens, 3u);
  EXPECT_EQ(request->n, 2u);
  EXPECT_EQ(request->seed, "42");
  EXPECT_EQ(request->cache_salt, "tenant");
  ASSERT_EQ(request->prompts.size(), 1u);
  ASSERT_EQ(request->prompts[0].size(), 2u);
  EXPECT_EQ(request->prompts[0][0].role, "system");
  EXPECT_EQ(request->prompts[0][1].text, "Hi \xc3\xa9\n");
}

TEST(OpenAiRequest, IgnoresUnknownFieldsWhateverTheirValues) {
  auto request =
      chat(R"({"tools": [{"a": {"b": [null, true, -1.5e-3]}}], "seed": 12345678901234567890123,
    "temperature": 0.30000000000000004, "stop": null, "big": 99999999999999999999999999,
    "messages": [{"role": "assistant", "content": null, "tool_calls": [{"id": "1"}]}]})");

  ASSERT_TRUE(request.ok()) << request.error().detail;
  EXPECT_EQ(request->seed, "12345678901234567890123");
  EXPECT_EQ(request->model, "");
  EXPECT_FALSE(request->max_tokens.has_value());
}

TEST(OpenAiRequest, JoinsTheTextPartsOfAMessage) {
  auto request = chat(R"({"messages": [{"role": "user", "content": [
    {"type": "text", "text": "look: "}, {"type": "image_url", "image_url": {"url": "data:x"}},
    {"type": "text", "text": "what?"}]}]})");

  ASSERT_TRUE(request.ok()) << request.error().detail;
  EXPECT_EQ(request->prompts[0][0].text, "look: what?");
}

TEST(OpenAiRequest, ReadsEveryFormOfAPrompt) {
  const auto prompts = [](std::string body) {
    auto request = parse_openai_request(OpenAiApi::completions, body);
    EXPECT_TRUE(request.ok()) << request.error().detail;
    return request.ok() ? std::move(request->prompts) : std::vector<Prompt>{};
  };

  const auto text = prompts(R"({"prompt": "one"})");
  const auto texts = prompts(R"({"prompt": ["one", "two"]})");
  const auto ids = prompts(R"({"prompt": [1, 2, 3]})");
  const auto id_lists = prompts(R"({"prompt": [[1, 2], [3]]})");

  ASSERT_EQ(text.size(), 1u);
  EXPECT_EQ(text[0][0].text, "one");
  ASSERT_EQ(texts.size(), 2u);
  EXPECT_EQ(texts[1][0].text, "two");
  ASSERT_EQ(ids.size(), 1u);
  EXPECT_EQ(ids[0][0].token_ids, (std::vector<std::uint64_t>{1, 2, 3}));
  ASSERT_EQ(id_lists.size(), 2u);
  EXPECT_EQ(id_lists[1][0].token_ids, (std::vector<std::uint64_t>{3}));
}

TEST(OpenAiRequest, RefusesInvalidJsonAnywhereInTheDocument) {
  for (const char* body : {"", "{", "[]", "null", "\"x\"", R"({"messages": [})",
                           R"({"messages": [{"role":"user","content":"x"}]} {})",
                           R"({"messages": [{"role":"user","content":"x"}], "x": tru})",
                           R"({"messages": [{"role":"user","content":"x"}], "x": 01})",
                           R"({"messages": [{"role":"user","content":"x"}], "x": 1.})",
                           R"({"messages": [{"role":"user","content":"x"}], "x": [1 2]})",
                           R"({"messages": [{"role":"user","content":"x"}], "x": nul})",
                           R"({"messages": [{"role":"user","content":"x"}], "x": "\q"})",
                           R"({"messages": [{"role":"user","content":"x"}], "x": {"y" 1}})",
                           R"({"messages": [{"role":"user","content":"x"}],})"}) {
    auto request = chat(body);
    EXPECT_FALSE(request.ok()) << body;
    if (request.ok()) continue;
    EXPECT_EQ(request.error().fault, Fault::bad_request);
  }
}

TEST(OpenAiRequest, ReportsTheWrongField) {
  const auto refusal = [](const char* body) {
    auto request = chat(body);
    return request.ok() ? std::string("accepted") : request.error().detail;
  };

  EXPECT_EQ(refusal(R"({"model": "m"})"), "'messages': Field required");
  EXPECT_EQ(refusal(R"({"messages": []})"), "'messages': should have at least one message");
  EXPECT_EQ(refusal(R"({"messages": [{"content": "x"}]})"), "'messages': 'role': Field required");
  EXPECT_EQ(refusal(R"({"model": 7})"), "'model': Input should be a valid string");
  EXPECT_EQ(refusal(R"({"stream": "yes"})"), "'stream': Input should be a valid boolean");
  EXPECT_EQ(refusal(R"({"max_tokens": 0})"), "'max_tokens': must be at least 1");
  EXPECT_EQ(refusal(R"({"max_tokens": 1.5})"), "'max_tokens': Input should be a valid integer");
  EXPECT_EQ(refusal(R"({"max_tokens": "9"})"), "'max_tokens': Input should be a valid integer");
}

TEST(OpenAiRequest, ReadsALargeBodyWithoutKeepingItsMemory) {
  std::string text(3 << 20, 'a');

  auto request = chat(R"({"messages": [{"role": "user", "content": ")" + text + "\"}]}");

  ASSERT_TRUE(request.ok());
  EXPECT_EQ(request->prompts[0][0].text.size(), text.size());
}

TEST(KserveRequest, KeepsNumbersAsTheyWereWritten) {
  std::string body = R"({"id": "7", "parameters": {"priority": 1}, "inputs": [
    {"name": "A", "datatype": "FP32", "shape": [2, 2], "data": [[0.30000000000000004, 1], [2, 3]] }]})";

  auto request = parse_kserve_infer(body);

  ASSERT_TRUE(request.ok()) << request.error().detail;
  EXPECT_EQ(request->id, "7");
  ASSERT_EQ(request->inputs.size(), 1u);
  EXPECT_EQ(request->inputs[0].data, "[[0.30000000000000004,1],[2,3]]");
  EXPECT_EQ(request->inputs[0].shape, "[2,2]");
  EXPECT_EQ(request->inputs[0].elements, 4u);
}

TEST(KserveRequest, ReadsGenerateWithParametersInsideOrOutside) {
  std::string outside = R"({"text_input": "hi", "max_tokens": 5})";
  std::string inside = R"({"text_input": "hi", "parameters": {"stream": true, "max_tokens": 6}})";

  auto first = parse_kserve_generate(outside);
  auto second = parse_kserve_generate(inside);

  ASSERT_TRUE(first.ok());
  ASSERT_TRUE(second.ok());
  EXPECT_EQ(first->max_tokens, 5u);
  EXPECT_EQ(second->max_tokens, 6u);
  EXPECT_TRUE(second->stream);
}

}  // namespace
}  // namespace evenkeel
