#include "evenkeel/inference/request_reader.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <initializer_list>
#include <string>
#include <string_view>

#include "inference/read_request.h"

namespace evenkeel {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

constexpr std::string_view chat_path = "/v1/chat/completions";

InferenceRequest facts(std::string_view path, std::string_view body) {
  const ReadRequest read = read_request(path, body);
  EXPECT_TRUE(read.accepted) << read.problem << " in " << body;
  EXPECT_EQ(read.request.complete, read.accepted);
  return read.request;
}

InferenceRequest chat(std::string_view body) { return facts(chat_path, body); }

std::string problem(std::string_view body) {
  const ReadRequest read = read_request(chat_path, body);
  EXPECT_FALSE(read.accepted) << body;
  return read.problem;
}

TEST(RequestReader, ReadsAChat) {
  const auto request = chat(R"({
    "model": "llama", "stream": true, "stream_options": {"include_usage": true, "x": [1]},
    "messages": [{"role": "system", "content": "Be brief."},
                 {"role": "user", "name": "eve", "content": "Hi \u00e9\n"}],
    "max_tokens": 50, "max_completion_tokens": 20, "n": 2, "priority": -3,
    "user": "u-1", "session_id": "s-1", "seed": 12345678901234567890123})");

  EXPECT_EQ(request.task, InferenceTask::chat);
  EXPECT_EQ(request.model, "llama");
  EXPECT_TRUE(request.stream);
  EXPECT_TRUE(request.include_usage);
  EXPECT_EQ(request.max_tokens, 20u);
  EXPECT_EQ(request.choices, 2u);
  EXPECT_EQ(request.priority, -3);
  EXPECT_EQ(request.user, "u-1");
  EXPECT_EQ(request.session, "s-1");
  EXPECT_EQ(request.prompt_bytes, 9u + 3u + 6u);
  EXPECT_NE(request.conversation, 0u);
}

TEST(RequestReader, GivesDefaultsWhereNothingIsSaid) {
  const auto request = chat("{}");

  EXPECT_EQ(request.model, "");
  EXPECT_FALSE(request.stream);
  EXPECT_FALSE(request.max_tokens.has_value());
  EXPECT_EQ(request.choices, 1u);
  EXPECT_EQ(request.conversation, 0u);
  EXPECT_TRUE(request.prefix_blocks.empty());
}

TEST(RequestReader, SaysWhetherTheAnswerCanBeTheSameEachTime) {
  EXPECT_FALSE(chat(R"({"model":"m"})").zero_temperature);
  for (const char* const zero : {"0", "0.0", "-0", "0e3", "0.00E-1"})
    EXPECT_TRUE(chat(fmt::format(R"({{"temperature":{}}})", zero)).zero_temperature) << zero;
  for (const char* const other : {"1", "-1", "10", "0.1", "1e-9", "null", "\"0\"", "false", "[0]"})
    EXPECT_FALSE(chat(fmt::format(R"({{"temperature":{}}})", other)).zero_temperature) << other;
  EXPECT_FALSE(chat(R"({"temperature":0,"temperature":1})").zero_temperature);
  EXPECT_TRUE(chat(R"({"seed":0})").has_seed);
  for (const char* const other : {"-1", "null", "1.5", "true"})
    EXPECT_FALSE(chat(fmt::format(R"({{"seed":{}}})", other)).has_seed) << other;
  EXPECT_FALSE(chat(R"({"tools":[{"temperature":0,"seed":1}]})").has_seed);
}

TEST(RequestReader, TellsWhereTheModelStands) {
  const std::string body =
      R"( {"a":1,"model":"a\u0062", "stream_options" : {"x":{}} ,"model":"c"})";
  const ReadRequest read = read_request(chat_path, body);

  ASSERT_EQ(read.model_values.size(), 2u);
  const auto text = [&](const BodyRange& range) {
    return body.substr(range.begin, range.end - range.begin);
  };
  EXPECT_EQ(text(read.model_values[0]), R"("a\u0062")");
  EXPECT_EQ(text(read.model_values[1]), R"("c")");
  EXPECT_EQ(text(read.stream_options.value()), R"({"x":{}})");
  EXPECT_EQ(read.object_begin, 2u);
  EXPECT_EQ(read.request.model, "c");
}

TEST(RequestReader, OnlyTheOutermostModelCounts) {
  const ReadRequest read = read_request(chat_path, R"({"messages":[{"role":"user",
    "content":"\"model\":\"no\", \"user\":\"no\"","model":"no","user":"no"}],
    "tools":[{"model":"no","session_id":"no","max_tokens":1}], "metadata":{"user_id":"no"},
    "model":{"model":"no"}, "extra":{"stream":true,"n":7,"priority":1,"prompt_cache_key":"no"},
    "options":{"num_predict":4}})");

  EXPECT_TRUE(read.accepted) << read.problem;
  EXPECT_EQ(read.request.model, "");
  EXPECT_TRUE(read.model_values.empty());
  EXPECT_EQ(read.request.user, "");
  EXPECT_EQ(read.request.session, "");
  EXPECT_FALSE(read.request.max_tokens.has_value());
  EXPECT_FALSE(read.request.stream);
  EXPECT_EQ(read.request.choices, 1u);
  EXPECT_FALSE(read.request.priority.has_value());
}

TEST(RequestReader, TheLastOfDuplicateKeysCounts) {
  const auto request = chat(R"({"stream":true,"stream":false,"max_tokens":5,"max_tokens":null,
    "user":"a","user":7,"n":3,"n":"x","stream_options":{"include_usage":true},"stream_options":{},
    "messages":[{"role":"user","content":"not this"}],
    "messages":[{"role":"user","content":"this"}]})");

  EXPECT_FALSE(request.stream);
  EXPECT_FALSE(request.max_tokens.has_value());
  EXPECT_EQ(request.user, "");
  EXPECT_EQ(request.choices, 1u);
  EXPECT_FALSE(request.include_usage);
  EXPECT_EQ(request.prompt_bytes, 4u);
  EXPECT_EQ(request.conversation,
            chat(R"({"messages":[{"role":"user","content":"this"}]})").conversation);
}

TEST(RequestReader, LeavesFieldsOfAWrongTypeUnset) {
  const auto request = chat(R"({"model":5,"stream":1,"max_tokens":"fifty","n":1.5,"user":["a"],
    "session_id":17,"priority":[1],"messages":7})");

  EXPECT_EQ(request.model, "");
  EXPECT_FALSE(request.stream);
  EXPECT_FALSE(request.max_tokens.has_value());
  EXPECT_EQ(request.choices, 1u);
  EXPECT_EQ(request.user, "");
  EXPECT_EQ(request.session, "");
  EXPECT_FALSE(request.priority.has_value());
}

TEST(RequestReader, ClampsLimits) {
  EXPECT_EQ(chat(R"({"max_tokens":99999999999999999999999999})").max_tokens, 4294967295u);
  EXPECT_FALSE(chat(R"({"max_tokens":-1})").max_tokens.has_value());
  EXPECT_EQ(chat(R"({"max_tokens":0})").max_tokens, 0u);
}

TEST(RequestReader, TakesIntegersAsPydanticDoes) {
  const auto limit = [](const std::string& value) {
    return chat("{\"max_tokens\":" + value + "}").max_tokens;
  };
  for (const char* const value : {"500", "500.0", "5e2", "5.0E+2", "50000e-2", "0.5e3", R"("500")",
                                  R"(" +5_00\n")", R"("0500.00")", R"("\u0035\u0030\u0030")"}) {
    EXPECT_EQ(limit(value), 500u) << value;
  }
  EXPECT_EQ(limit("true"), 1u);
  EXPECT_EQ(limit("-0.0"), 0u);
  EXPECT_EQ(limit("4294967296.0"), 4294967295u);
  EXPECT_EQ(limit(R"("99999999999999999999999")"), 4294967295u);
  for (const char* const value :
       {"500.5", "5e-1", "1e400", "9.3e18", R"("5e2")", R"("500.")", R"("500.5")", R"("5__0")",
        R"("_5")", R"("5_")", R"("0x10")", R"("")", R"("-")", R"(".0")", R"("5 0")", R"("-5")"}) {
    EXPECT_FALSE(limit(value).has_value()) << value;
  }

  const auto others = chat(R"({"n":"2","priority":"-3","max_completion_tokens":7.0})");
  EXPECT_EQ(others.choices, 2u);
  EXPECT_EQ(others.priority, -3);
  EXPECT_EQ(others.max_tokens, 7u);
}

TEST(RequestReader, LeavesNumbersUnsetWhoseEndIsNotKept) {
  const std::string zeros(InferenceRequest::max_name, '0');

  EXPECT_FALSE(chat("{\"max_tokens\":\"" + zeros + "500\"}").max_tokens.has_value());
  EXPECT_FALSE(chat("{\"max_tokens\":5." + zeros + "}").max_tokens.has_value());
}

TEST(RequestReader, DecodesNames) {
  EXPECT_EQ(chat(R"({"mod\u0065l":"a\/\"\\\b\f\n\r\té\u00e9\u4f60\ud83d\ude00"})").model,
            "a/\"\\\b\f\n\r\t\xc3\xa9\xc3\xa9\xe4\xbd\xa0\xf0\x9f\x98\x80");
  EXPECT_EQ(chat(R"({"model":"\ud83dx\ude00"})").model, "\xef\xbf\xbdx\xef\xbf\xbd");
}

TEST(RequestReader, KeepsTheBeginningOfLongNames) {
  std::string body = R"({"model":")";
  for (int i = 0; i < 200; ++i) body += "é";
  body += "\",\"" + std::string(3000, 'k') + R"(":1,"user":")" + std::string(3000, 'u') + "\"}";
  const auto request = chat(body);

  EXPECT_EQ(request.model.size(), 256u);
  EXPECT_EQ(request.user, std::string(256, 'u'));
}

TEST(RequestReader, CountsTextInUtf8WithoutEscapes) {
  const auto bytes = [](const std::string& text) {
    return chat(R"({"messages":[{"role":"user","content":")" + text + "\"}]}").prompt_bytes;
  };

  EXPECT_EQ(bytes(""), 0u);
  EXPECT_EQ(bytes("plain"), 5u);
  EXPECT_EQ(bytes(R"(\n\t\"\\\/)"), 5u);
  EXPECT_EQ(bytes(R"(\u0041\u00e9\u4f60)"), 1u + 2u + 3u);
  EXPECT_EQ(bytes(R"(\ud83d\ude00)"), 4u);
  EXPECT_EQ(bytes(R"(\ud83d \ude00)"), 3u + 1u + 3u);
  EXPECT_EQ(bytes(R"(\ud83d\ud83d\ude00\ude00)"), 3u + 4u + 3u);
  EXPECT_EQ(bytes("\xf0\x9f\x98\x80"), 4u);
}

TEST(RequestReader, CountsImagesAndNotTheirData) {
  const std::string data(100000, 'A');
  const auto request = chat(R"({"messages":[{"role":"user","content":[
    {"type":"text","text":"look: "},
    {"type":"image_url","image_url":{"url":"data:image/png;base64,)" +
                            data + R"(","detail":"low"}},
    {"type":"input_image","image_url":"data:image/png;base64,)" +
                            data + R"("},
    {"type":"input_audio","input_audio":{"data":")" +
                            data + R"("}},
    {"type":"text","text":"what?"}]}]})");

  EXPECT_EQ(request.images, 2u);
  EXPECT_EQ(request.prompt_bytes, 11u);
  EXPECT_TRUE(request.prefix_blocks.empty());
}

TEST(RequestReader, CountsToolsAndCalls) {
  const auto request = chat(R"({"tools":[{"type":"function","function":{"name":"f","strict":true}}],
    "messages":[{"role":"assistant","content":null,"tool_calls":[{"id":"123","type":"function",
      "function":{"name":"get","arguments":"{\"a\":1}"}}]},
      {"role":"tool","tool_call_id":"123","content":"sunny"}]})");

  EXPECT_EQ(request.prompt_bytes, std::string_view("type"
                                                   "function"
                                                   "function"
                                                   "name"
                                                   "f"
                                                   "strict")
                                          .size() +
                                      std::string_view("get"
                                                       R"({"a":1})"
                                                       "sunny")
                                          .size());
}

TEST(RequestReader, ReadsEveryFormOfAPrompt) {
  const auto completion = [](std::string_view body) { return facts("/v1/completions", body); };

  EXPECT_EQ(completion(R"({"prompt":"one"})").prompt_bytes, 3u);
  EXPECT_EQ(completion(R"({"prompt":["one","three"]})").prompt_bytes, 8u);
  EXPECT_EQ(completion(R"({"prompt":[1,2,3]})").prompt_tokens, 3u);
  EXPECT_EQ(completion(R"({"prompt":[[1,2],[3,4,5]]})").prompt_tokens, 5u);
  EXPECT_EQ(completion(R"({"prompt":[1,"two",3]})").prompt_tokens, 2u);
  EXPECT_EQ(completion(R"({"prompt":null})").prompt_bytes, 0u);
  EXPECT_EQ(completion(R"({"prompt":"one","suffix":"two"})").prompt_bytes, 6u);
}

TEST(RequestReader, ReadsTheEnginesOwnCompletions) {
  const auto sglang =
      facts("/generate", R"({"text":"hello","sampling_params":{"max_new_tokens":7}})");
  const auto ids = facts("/generate", R"({"input_ids":[[1,2],[3]],"stream":true})");
  const auto tgi =
      facts("/generate_stream", R"({"inputs":"hello","parameters":{"max_new_tokens":9}})");
  const auto llama = facts("/completion", R"({"prompt":"hello","n_predict":11,"max_tokens":3})");

  EXPECT_EQ(sglang.prompt_bytes, 5u);
  EXPECT_EQ(sglang.max_tokens, 7u);
  EXPECT_EQ(ids.prompt_tokens, 3u);
  EXPECT_TRUE(ids.stream);
  EXPECT_EQ(tgi.max_tokens, 9u);
  EXPECT_TRUE(tgi.stream);
  EXPECT_EQ(llama.max_tokens, 11u);
  EXPECT_FALSE(facts("/completion", R"({"prompt":"x","n_predict":-1})").max_tokens.has_value());
}

TEST(RequestReader, ReadsResponses) {
  const auto plain =
      facts("/v1/responses", R"({"model":"m","input":"hello","instructions":"be brief",
    "max_output_tokens":8,"prompt_cache_key":"k","safety_identifier":"u","stream":true})");
  const auto items = facts("/v1/responses", R"({"input":[
    {"role":"user","content":[{"type":"input_text","text":"hello"},{"type":"input_image","image_url":"data:x"}]},
    {"type":"function_call","name":"get","arguments":"{}","call_id":"1"},
    {"type":"function_call_output","call_id":"1","output":"sunny"}]})");

  EXPECT_EQ(plain.task, InferenceTask::chat);
  EXPECT_EQ(plain.prompt_bytes, 13u);
  EXPECT_EQ(plain.max_tokens, 8u);
  EXPECT_EQ(plain.session, "k");
  EXPECT_EQ(plain.user, "u");
  EXPECT_NE(plain.conversation, 0u);
  EXPECT_EQ(items.prompt_bytes, 5u + 3u + 2u + 5u);
  EXPECT_EQ(items.images, 1u);
  EXPECT_NE(items.conversation, 0u);
}

TEST(RequestReader, ReadsAnthropicMessages) {
  const auto request =
      facts("/v1/messages", R"({"max_tokens":100,"model":"c","metadata":{"user_id":"u"},
    "messages":[{"role":"user","content":[
      {"type":"image","source":{"type":"base64","media_type":"image/png","data":"AAAA"}},
      {"type":"text","text":"what?","cache_control":{"type":"ephemeral"}}]},
     {"role":"assistant","content":[{"type":"tool_use","id":"1","name":"get","input":{"a":"bc"}}]},
     {"role":"user","content":[{"type":"tool_result","tool_use_id":"1","content":[
       {"type":"text","text":"sunny"},{"type":"image","source":{"type":"url","url":"http://x"}}]}]}],
    "system":[{"type":"text","text":"be brief"}],"tools":[{"name":"get"}]})");

  EXPECT_EQ(request.max_tokens, 100u);
  EXPECT_EQ(request.user, "u");
  EXPECT_EQ(request.images, 2u);
  EXPECT_EQ(request.prompt_bytes, 5u + (3u + 1u + 2u) + 5u + 8u + (4u + 3u));
}

TEST(RequestReader, ReadsOllama) {
  const auto chat = facts("/api/chat", R"({"model":"m","options":{"num_predict":12,"temperature":0},
    "messages":[{"role":"user","content":"hello","images":["AAAA","BBBB"]}]})");
  const auto generate = facts("/api/generate", R"({"prompt":"hello","system":"brief","stream":false,
    "images":["AAAA"],"context":[1,2,3]})");

  EXPECT_TRUE(chat.stream);  // Ollama's default
  EXPECT_EQ(chat.max_tokens, 12u);
  EXPECT_EQ(chat.images, 2u);
  EXPECT_EQ(chat.prompt_bytes, 5u);
  EXPECT_FALSE(generate.stream);
  EXPECT_EQ(generate.task, InferenceTask::completion);
  EXPECT_EQ(generate.prompt_bytes, 10u);
  EXPECT_EQ(generate.prompt_tokens, 3u);
  EXPECT_EQ(generate.images, 1u);
  EXPECT_FALSE(facts("/api/embed", R"({"input":["a","bc"]})").stream);
  const auto embedding = facts("/api/embeddings", R"({"model":"m","prompt":"hello"})");
  EXPECT_EQ(embedding.task, InferenceTask::embedding);
  EXPECT_EQ(embedding.model, "m");
  EXPECT_EQ(embedding.prompt_bytes, 5u);
}

TEST(RequestReader, ComparesKeysAsOllamaDoes) {
  const auto chat = facts("/api/chat", R"({"model":"a","Model":"b","STREAM":false,"Options":
    {"num_predict":5,"Num_Predict":9},"me\u017fſages":[{"Role":"user","CONTENT":"hello"}]})");

  EXPECT_EQ(chat.model, "b");
  EXPECT_FALSE(chat.stream);
  EXPECT_EQ(chat.max_tokens, 5u);  // options are a map in Go
  EXPECT_EQ(chat.prompt_bytes, 5u);
  EXPECT_NE(chat.conversation, 0u);
  EXPECT_EQ(facts("/api/generate", R"({"MODEL":"b","model":"a","Model":null})").model, "a");
  EXPECT_EQ(facts("/v1/chat/completions", R"({"model":"a","Model":"b"})").model, "a");
}

TEST(RequestReader, TellsWhereEachOfOllamasModelsStands) {
  const std::string body = R"({"Model":"a","model":"b"})";

  const ReadRequest read = read_request("/api/chat", body);

  ASSERT_EQ(read.model_values.size(), 2u);
  EXPECT_EQ(read.model_values[0].begin, body.find("\"a\""));
  EXPECT_EQ(read.model_values[1].begin, body.find("\"b\""));
}

TEST(RequestReader, ReadsEmbeddingsRerankAndScore) {
  EXPECT_EQ(facts("/v1/embeddings", R"({"input":["a","bc"]})").prompt_bytes, 3u);
  EXPECT_EQ(facts("/v1/embeddings", R"({"input":[[1],[2,3]]})").prompt_tokens, 3u);
  EXPECT_EQ(facts("/v1/rerank", R"({"query":"q","documents":["a",{"text":"bc"}]})").prompt_bytes,
            4u);
  EXPECT_EQ(facts("/score", R"({"text_1":"q","text_2":["a","bc"]})").prompt_bytes, 4u);
  EXPECT_EQ(facts("/v1/audio/speech", R"({"model":"t","input":"hello","voice":"x"})").prompt_bytes,
            5u);
}

TEST(RequestReader, ReadsKserve) {
  const auto infer = facts("/v2/models/resnet/versions/2/infer", R"({"id":"7",
    "parameters":{"sequence_id":42,"sequence_start":true},
    "inputs":[{"name":"a","datatype":"FP32","shape":[1,3,2],"data":[1,2,3,4,5,6]},
              {"name":"b","datatype":"BYTES","shape":[2],"data":["ab","c\u00e9"]},
              {"name":"c","datatype":"INT8","shape":[10],"parameters":{"binary_data_size":10}}]})");
  const auto text =
      facts("/v2/models/m/infer", R"({"parameters":{"sequence_id":"s"},"inputs":[]})");
  const auto generate = facts("/v2/models/llama/generate_stream",
                              R"({"text_input":"hello","parameters":{"max_tokens":5}})");

  EXPECT_EQ(infer.task, InferenceTask::infer);
  EXPECT_EQ(infer.model, "resnet");
  EXPECT_EQ(infer.session, "42");
  EXPECT_TRUE(infer.starts_sequence);
  EXPECT_FALSE(text.starts_sequence);
  EXPECT_EQ(infer.tensor_bytes, 24u + 5u + 10u);
  EXPECT_EQ(text.session, "s");
  EXPECT_EQ(generate.model, "llama");
  EXPECT_EQ(generate.prompt_bytes, 5u);
  EXPECT_EQ(generate.max_tokens, 5u);
  EXPECT_TRUE(generate.stream);
  EXPECT_EQ(facts("/v2/models/m/infer", R"({"parameters":{"sequence_id":0}})").session, "");
}

TEST(RequestReader, DecodesNamesInPaths) {
  const std::string long_name(InferenceRequest::max_name + 1, 'm');

  EXPECT_EQ(facts("/v2/models/a%20b%3a7/infer", "{}").model, "a b:7");
  EXPECT_EQ(facts("/v2/models/org%2Fname/infer", "{}").model, "org/name");
  EXPECT_EQ(facts("/v2/models/mod%C3%A8le/generate", "{}").model, "mod\u00e8le");
  EXPECT_EQ(facts("/v2/models/100%25/infer", "{}").model, "100%");
  EXPECT_EQ(facts("/v2/models/a%FFb/infer", "{}").model, "a");
  EXPECT_EQ(facts("/v2/models/" + long_name + "/infer", "{}").model,
            long_name.substr(0, InferenceRequest::max_name));
}

TEST(ModelInPath, IsThatOfEachApi) {
  struct Case {
    std::string_view method;
    std::string_view path;
    std::string_view model;
  };
  for (const auto& [method, path, model] : std::initializer_list<Case>{
           {"GET", "/v1/models/llama3:latest", "llama3:latest"},
           {"GET", "/x/v1/models/org/name", "org/name"},
           {"GET", "/v1/models/resnet/versions/3", "resnet"},
           {"GET", "/v1/models/resnet/versions/3/metadata", "resnet"},
           {"GET", "/v1/models/resnet/labels/stable", "resnet"},
           {"GET", "/v1beta/models/gemini-2", "gemini-2"},
           {"GET", "/v2/models/bert/versions/1/ready", "bert"},
           {"GET", "/v1/models", ""},
           {"GET", "/v1/models/versions/3", "versions/3"},
           {"DELETE", "/v1/models/ft:gpt:org", "ft:gpt:org"},
           {"POST", "/v1/models/resnet:predict", "resnet"},
           {"POST", "/v1/models/a%20b:predict", "a b"},
           {"POST", "/v1/models/llama3:8b:predict", "llama3:8b"},
           {"POST", "/v1/models/resnet/versions/3:predict", "resnet"},
           {"POST", "/v1beta/models/gemini-2:generateContent", "gemini-2"},
           {"POST", "/v1/projects/p/publishers/google/models/gemini-2:countTokens", "gemini-2"},
           {"POST", "/v2/models/bert/infer", "bert"},
           {"POST", "/v2/repository/models/bert/load", "bert"},
           {"POST", "/v2/repository/models/bert/x", ""},
           {"POST", "/v1/batches:cancel", ""},
       }) {
    EXPECT_EQ(model_in_path(method, path), model) << method << " " << path;
  }
}

TEST(ModelInPath, NeedsNoBodyBeforeAVerb) {
  const auto api = [](std::string_view path) {
    return inference_api_of({.method = "POST",
                             .path = path,
                             .content_type = {},
                             .content_encoding = {},
                             .inference_header_length = {}});
  };
  EXPECT_EQ(api("/v1/models/resnet:predict"), InferenceApi::path_model);
  EXPECT_EQ(api("/v1/models/resnet/versions/3:predict"), InferenceApi::path_model);
  EXPECT_EQ(api("/v1/models/resnet"), InferenceApi::other);
  EXPECT_EQ(api("/v1/models/resnet:8"), InferenceApi::other);
  EXPECT_EQ(api("/v2/models/org/name/infer"), InferenceApi::other);
  EXPECT_FALSE(needs_body(InferenceApi::path_model));
}

TEST(RequestReader, TellsTheStartOfASequence) {
  const auto starts = [](const std::string& parameters) {
    return facts("/v2/models/m/infer", R"({"parameters":)" + parameters + "}").starts_sequence;
  };

  EXPECT_TRUE(starts(R"({"sequence_start":true,"sequence_id":"a"})"));
  EXPECT_FALSE(starts(R"({"sequence_start":false,"sequence_id":"a"})"));
  EXPECT_FALSE(starts(R"({"sequence_start":1,"sequence_id":"a"})"));
  EXPECT_FALSE(starts(R"({"sequence_start":true,"sequence_start":null})"));
  EXPECT_FALSE(facts("/v2/models/m/infer", R"({"sequence_start":true})").starts_sequence);
}

TEST(RequestReader, NamesTheSessionByTheFirstNameThatIsGiven) {
  EXPECT_EQ(
      chat(R"({"prompt_cache_key":"k","vllm_xargs":{"session_id":"x"},"session_id":"s"})").session,
      "s");
  EXPECT_EQ(chat(R"({"prompt_cache_key":"k","vllm_xargs":{"session_id":"x"}})").session, "x");
  EXPECT_EQ(chat(R"({"prompt_cache_key":"k"})").session, "k");
}

TEST(RequestReader, TakesTheTurnOffAnIdOfSglangsRouter) {
  EXPECT_EQ(chat(R"({"rid":"chat-7_t12_r0"})").session, "chat-7");
  EXPECT_EQ(chat(R"({"rid":"chat-7"})").session, "");
  EXPECT_EQ(chat(R"({"rid":"12"})").session, "");
  EXPECT_EQ(chat(R"({"rid":["a_t1_r1"]})").session, "");
}

TEST(RequestReader, KnowsWhatAResponseGoesOnFrom) {
  const auto read = [](std::string_view body) { return facts("/v1/responses", body); };
  EXPECT_EQ(read(R"({"previous_response_id":"resp_1"})").previous_response, "resp_1");
  EXPECT_EQ(read(R"({"previous_response_id":null})").previous_response, "");
  EXPECT_EQ(read(R"({"conversation":"conv_1"})").conversation_id, "conv_1");
  EXPECT_EQ(read(R"({"conversation":{"id":"conv_1"},"metadata":{"id":"no"}})").conversation_id,
            "conv_1");
}

// ---- hashes

std::string long_text(char c, std::size_t bytes) { return std::string(bytes, c); }

std::string conversation_body(std::string_view model, const std::vector<std::string>& turns,
                              std::string_view more = "") {
  std::string body = R"({"model":")" + std::string(model) + R"(","messages":[)";
  bool of_user = true;
  for (const std::string& turn : turns) {
    if (body.back() == '}') body += ',';
    body += std::string(R"({"role":")") + (of_user ? "user" : "assistant") + R"(","content":")" +
            turn + "\"}";
    of_user = !of_user;
  }
  return body + "]" + std::string(more) + "}";
}

std::size_t shared_blocks(const InferenceRequest& one, const InferenceRequest& two) {
  std::size_t count = 0;
  while (count < std::min(one.prefix_blocks.size(), two.prefix_blocks.size()) &&
         one.prefix_blocks[count] == two.prefix_blocks[count]) {
    ++count;
  }
  return count;
}

TEST(RequestReader, TurnsOfAConversationShareItsHashAndPrefix) {
  const auto first = chat(conversation_body("m", {long_text('a', 5000)}));
  const auto second =
      chat(conversation_body("m", {long_text('a', 5000), "answer", long_text('b', 3000)}));
  const auto other = chat(conversation_body("m", {long_text('a', 4000) + long_text('c', 4000)}));

  EXPECT_EQ(first.prefix_blocks.size(), 4u);
  EXPECT_EQ(second.prefix_blocks.size(), 7u);
  EXPECT_EQ(first.conversation, second.conversation);
  EXPECT_NE(first.conversation, other.conversation);
  EXPECT_EQ(shared_blocks(first, second), 4u);
  EXPECT_EQ(shared_blocks(first, other), 3u);
}

TEST(RequestReader, PrefixesDifferByModelAndTools) {
  const std::vector<std::string> turns = {long_text('a', 5000)};
  const auto plain = chat(conversation_body("m", turns));
  const auto other_model = chat(conversation_body("n", turns));
  const auto tools = chat(conversation_body("m", turns, R"(,"tools":[{"name":"f"}])"));
  const auto tools_first =
      chat(R"({"tools":[{"name":"f"}],)" + conversation_body("m", turns).substr(1));

  EXPECT_EQ(shared_blocks(plain, other_model), 0u);
  EXPECT_EQ(shared_blocks(plain, tools), 0u);
  EXPECT_EQ(tools.prefix_blocks, tools_first.prefix_blocks);
  EXPECT_EQ(plain.conversation, tools.conversation);
}

TEST(RequestReader, AnotherImageIsAnotherPrefix) {
  const auto with_image = [](std::string_view data) {
    return chat(
        R"({"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":")" +
        std::string(data) + R"("}},{"type":"text","text":")" + long_text('a', 3000) + R"("}]}]})");
  };

  EXPECT_EQ(shared_blocks(with_image("data:AAAA"), with_image("data:AAAA")), 2u);
  EXPECT_EQ(shared_blocks(with_image("data:AAAA"), with_image("data:AAAB")), 0u);
}

TEST(RequestReader, BoundariesOfMessagesArePartOfThePrefix) {
  const auto one = chat(conversation_body("m", {"ab", "c", long_text('x', 2000)}));
  const auto two = chat(conversation_body("m", {"a", "bc", long_text('x', 2000)}));

  EXPECT_EQ(shared_blocks(one, two), 0u);
}

TEST(RequestReader, ASystemPromptComesFirstWhereverItStands) {
  const std::string messages =
      R"("messages":[{"role":"user","content":")" + long_text('a', 2500) + "\"}]";
  const std::string other =
      R"("messages":[{"role":"user","content":")" + long_text('b', 2500) + "\"}]";
  const std::string system = R"("system":")" + long_text('s', 3000) + "\"";
  const auto before = facts("/v1/messages", "{" + system + "," + messages + "}");
  const auto after = facts("/v1/messages", "{" + messages + "," + system + "}");
  const auto of_other = facts("/v1/messages", "{" + other + "," + system + "}");

  EXPECT_EQ(before.prefix_blocks, after.prefix_blocks);
  EXPECT_EQ(before.conversation, after.conversation);
  EXPECT_EQ(shared_blocks(before, of_other), 2u);
  EXPECT_NE(before.conversation, of_other.conversation);
}

TEST(RequestReader, PlainPromptsConverseByTheirFirstBlock) {
  const auto completion = [](const std::string& prompt) {
    return facts("/v1/completions", R"({"prompt":")" + prompt + "\"}").conversation;
  };

  EXPECT_EQ(completion(long_text('a', 2000)), completion(long_text('a', 5000)));
  EXPECT_NE(completion("a"), completion("b"));
  EXPECT_EQ(completion(""), completion(""));
  EXPECT_EQ(facts("/v1/completions", R"({"max_tokens":1})").conversation, 0u);
}

TEST(RequestReader, StopsAtTheMostBlocks) {
  const auto request = chat(conversation_body("m", {long_text('a', 300000)}));

  EXPECT_EQ(request.prefix_blocks.size(), InferenceRequest::max_blocks);
  EXPECT_EQ(request.prompt_bytes, 300000u);
}

// ---- errors

TEST(RequestReader, NamesTheByteThatIsWrong) {
  EXPECT_EQ(problem(R"({"model":"a" "b":1})"), "invalid JSON at byte 13: a comma or '}' expected");
  EXPECT_THAT(problem(""), StartsWith("invalid JSON at byte 0: the body is empty"));
  EXPECT_THAT(problem("{\"a\":\"b\nc\"}"), StartsWith("invalid JSON at byte 7: control character"));
  EXPECT_THAT(problem(R"({"a":"\x"})"), StartsWith("invalid JSON at byte 7: invalid escape"));
  EXPECT_THAT(problem(R"({"a":"\u00g0"})"), StartsWith("invalid JSON at byte 10: invalid escape"));
  EXPECT_THAT(problem("{\"a\":\"x\xc3\"}"),
              StartsWith("invalid JSON at byte 7: text is not UTF-8"));
  EXPECT_THAT(problem(R"({"a":tru})"), StartsWith("invalid JSON at byte 8: true, false"));
  EXPECT_THAT(problem(R"({"a":01})"), StartsWith("invalid JSON at byte 6: a comma"));
  EXPECT_THAT(problem(R"({"a":1.})"), StartsWith("invalid JSON at byte 7: a digit"));
  EXPECT_THAT(problem(R"({"a":1}x)"), StartsWith("invalid JSON at byte 7: bytes after"));
  EXPECT_THAT(problem("{\"a\":1"), HasSubstr("at byte 6: the body ends too early"));
  EXPECT_THAT(problem("\xef\xbb\xbf{}"), StartsWith("invalid JSON at byte 0"));
  EXPECT_THAT(problem("{,}"), StartsWith("invalid JSON at byte 1: a key"));
  EXPECT_THAT(problem("[1,]"), StartsWith("invalid JSON at byte 3: a value"));
  EXPECT_THAT(problem("{\"a\":NaN}"), StartsWith("invalid JSON at byte 5: a value"));
}

TEST(RequestReader, AcceptsAnyDocument) {
  for (const std::string_view body :
       {"[1,2]", "\"text\"", "17", " -0.5e+10 ", "null", "[]", "[[],{}]", "{\"a\":[{\"b\":[]}]}"}) {
    const ReadRequest read = read_request(chat_path, body);
    EXPECT_TRUE(read.accepted) << body << ": " << read.problem;
    EXPECT_EQ(read.object_begin.has_value(), body[0] == '{');
  }
}

TEST(RequestReader, LimitsTheDepth) {
  const auto nested = [](std::size_t depth) {
    return std::string(depth, '[') + std::string(depth, ']');
  };

  EXPECT_TRUE(read_request(chat_path, nested(512)).accepted);
  EXPECT_THAT(problem(nested(513)), StartsWith("invalid JSON at byte 512: nested"));
}

// ---- cuts

constexpr std::string_view samples[] = {
    R"({"model":"a\u00e9\ud83d\ude00b","messages":[{"role":"user","content":"h\n\u00e9\ud83d\ude00é你😀 \"model\":\"x\""},)"
    R"({"content":[{"type":"text","text":"\\"},{"type":"image_url","image_url":{"url":"data:\/"}}],"role":"us\u0065r"}],)"
    R"("stream":true,"max_tokens":12,"n":-1.5e-7,"tools":[{"a\n":{"b":[null,false]}}],"stream_options":{"include_usage":true},)"
    R"("session_id":"s","user":"u","priority":-12 , "m\u006fdel":"last" })",
    "{\"a\":\"\xf0\x9f\x98\x80\xe4\xbd\xa0\xed\xa0\x80\"}",
    "{\"a\":\"\xf0\x9f\x98\"}",
    R"({"a":"\u12)",
    R"({"a":"\uD83D\uDE00","b":"\uD83D\n"} x)",
    R"([1,22,-0.5,true)",
    " 12 ",
};

TEST(RequestReader, CutsDoNotMatter) {
  for (const std::string_view body : samples) {
    const ReadRequest whole = read_request(chat_path, body);
    for (std::size_t first = 0; first <= body.size(); ++first) {
      for (const std::size_t second :
           {first, std::min(first + 1, body.size()), (first + body.size()) / 2}) {
        const ReadRequest cut = read_pieces(
            post(chat_path),
            {body.substr(0, first), body.substr(first, second - first), body.substr(second)});
        ASSERT_EQ(cut.problem, whole.problem) << body << " cut at " << first << ", " << second;
        ASSERT_EQ(facts_of(cut.request), facts_of(whole.request)) << body << " cut at " << first;
        ASSERT_EQ(ranges_of(cut), ranges_of(whole)) << body << " cut at " << first;
      }
    }
  }
}

TEST(RequestReader, SettlesWhatABeginningSays) {
  InferenceRequest request;
  const auto reader = RequestReader::create(post(chat_path), request);
  const std::string body = conversation_body("m", {long_text('a', 5000)});

  EXPECT_TRUE(reader->read(std::string_view(body).substr(0, 3500)));
  reader->stop();

  EXPECT_FALSE(request.complete);
  EXPECT_EQ(request.model, "m");
  EXPECT_GT(request.prompt_bytes, 3000u);
  EXPECT_EQ(request.prefix_blocks.size(), 3u);
  EXPECT_EQ(request.prefix_blocks[2], chat(body).prefix_blocks[2]);
}

// ---- which requests are read

TEST(RequestReader, KnowsTheApis) {
  EXPECT_EQ(inference_api_of(post("/v1/messages")), InferenceApi::anthropic_messages);
  EXPECT_EQ(inference_api_of(post("/v2/models/m/infer")), InferenceApi::kserve_infer);
  EXPECT_EQ(inference_api_of(post("/v2/models/m/versions/1/generate")),
            InferenceApi::kserve_generate);
  for (const std::string_view path : {"/v2/models//infer", "/v2/models/org/name/infer",
                                      "/v2/models/m", "/v2/models/m/versions/1", "/v1/models"}) {
    EXPECT_EQ(inference_api_of(post(path)), InferenceApi::other) << path;
  }
  EXPECT_FALSE(inference_api_of({.method = "GET", .path = chat_path}));
  EXPECT_FALSE(inference_api_of({.method = "POST", .path = chat_path, .is_grpc = true}));
}

TEST(RequestReader, KnowsTheApisBehindAPrefix) {
  EXPECT_EQ(inference_api_of(post("/openai/v1/chat/completions")), InferenceApi::openai_chat);
  EXPECT_EQ(inference_api_of(post("/claude/v1/messages")), InferenceApi::anthropic_messages);
  EXPECT_EQ(inference_api_of(post("/ollama/api/chat")), InferenceApi::ollama);
  EXPECT_EQ(inference_api_of(post("/triton/v2/models/m/infer")), InferenceApi::kserve_infer);
  EXPECT_EQ(inference_api_of(post("/subscore")), InferenceApi::other);
}

TEST(RequestReader, ReadsTheModelOfAnyPath) {
  for (const std::string_view path :
       {"/v1/messages/count_tokens", "/tokenize", "/v1/moderations", "/v1/images/generations",
        "/classify", "/pooling", "/invocations", "/v1/responses/compact", "/of/next/year"}) {
    const auto request = facts(path, R"({"messages":[{"model":"no"}],"model":"m","stream":true})");
    EXPECT_EQ(request.model, "m") << path;
    EXPECT_TRUE(request.stream) << path;
    EXPECT_EQ(request.task, InferenceTask::other) << path;
  }
  for (const std::string_view method : {"PUT", "PATCH", "DELETE"}) {
    const RequestHead head{.method = method, .path = "/x", .content_type = "application/json"};
    EXPECT_EQ(read_request(head, R"({"model":"m"})").request.model, "m") << method;
  }
}

TEST(RequestReader, ReadsTheModelOfAFormOfAnyPath) {
  RequestHead head = post("/v1/images/edits");
  head.content_type = "multipart/form-data; boundary=b";
  const ReadRequest read = read_request(
      head, "--b\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nm\r\n--b--\r\n");

  EXPECT_EQ(read.request.model, "m");
}

TEST(RequestReader, ReadsOllamasNamesOfAModel) {
  EXPECT_EQ(facts("/api/show", R"({"Name":"m"})").model, "m");
  EXPECT_EQ(facts("/api/show", R"({"name":"no","model":"m"})").model, "m");
  EXPECT_EQ(facts("/api/show", R"({"model":"m","name":"no"})").model, "m");
  EXPECT_EQ(facts("/api/show", R"({"name":"m","model":""})").model, "m");
  EXPECT_EQ(facts("/api/copy", R"({"source":"m","destination":"n"})").model, "m");
  EXPECT_EQ(facts("/v1/x", R"({"name":"no"})").model, "");
  EXPECT_EQ(read_request("/api/pull", R"({"name":"m"})").model_values.size(), 1u);
}

TEST(RequestReader, TellsOfMembersInWhichServersReadAnotherModel) {
  for (const std::string_view body :
       {R"({"model":"m","MODEL":"n"})", R"({"\u004dodel":"n"})", R"({"lora_path":"a"})",
        R"({"model":"m","lora":[{"id":0}]})", R"({"adapter_id":"a"})"})
    EXPECT_TRUE(chat(body).model_disputed) << body;
  EXPECT_TRUE(
      facts("/generate", R"({"inputs":"a","parameters":{"adapter_id":"b"}})").model_disputed);
  EXPECT_FALSE(chat(R"({"model":"m","messages":[{"MODEL":"n","lora":1}]})").model_disputed);
  EXPECT_FALSE(facts("/api/chat", R"({"MODEL":"m"})").model_disputed) << "Ollama's own API";
}

TEST(RequestReader, TellsThatAModelIsNoString) {
  for (const std::string_view value : {"1", "true", "{}", R"(["m"])"}) {
    const auto request = chat(R"({"model":)" + std::string(value) + "}");
    EXPECT_TRUE(request.model_mistyped) << value;
    EXPECT_EQ(request.model, "") << value;
  }
  for (const std::string_view body : {R"({"model":1,"model":"m"})", R"({"model":null})", "{}"})
    EXPECT_FALSE(chat(body).model_mistyped) << body;
}

}  // namespace
}  // namespace evenkeel
