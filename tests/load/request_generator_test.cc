#include "evenkeel/load/request_generator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace evenkeel {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(RequestGenerator, MakesTheSameRequestFromTheSameSeedAndIndex) {
  const LoadOptions options{.prompt_tokens = {10, 90}, .output_tokens = {1, 50}, .seed = 3};
  const RequestGenerator generator(options, "m", nullptr);
  const RequestGenerator again(options, "m", nullptr);

  for (const std::uint64_t index : {7u, 0u, 123456u}) {
    EXPECT_EQ(generator.body(generator.load_request(index)), again.body(again.load_request(index)));
  }
  EXPECT_NE(generator.prompt(generator.load_request(1)),
            generator.prompt(generator.load_request(2)));
}

TEST(RequestGenerator, DrawsLengthsFromTheWholeRange) {
  const LoadOptions options{.prompt_tokens = {3, 5}, .output_tokens = {10, 10}};
  const RequestGenerator generator(options, "m", nullptr);

  std::set<std::uint32_t> seen;
  for (std::uint64_t i = 0; i < 200; ++i) {
    const LoadRequest load_request = generator.load_request(i);
    seen.insert(load_request.prompt_tokens);
    EXPECT_EQ(load_request.output_tokens, 10u);
    EXPECT_EQ(generator.prompt(load_request).size(), 4 * load_request.prompt_tokens);
  }

  EXPECT_EQ(seen, (std::set<std::uint32_t>{3, 4, 5}));
}

TEST(RequestGenerator, HasUnrelatedPromptsForUnrelatedSeeds) {
  const LoadOptions one{.prompt_tokens = {16, 16}, .seed = 1};
  const LoadOptions two{.prompt_tokens = {16, 16}, .seed = 2};
  const RequestGenerator first(one, "m", nullptr);
  const RequestGenerator second(two, "m", nullptr);

  std::set<std::string> prompts;
  for (std::uint64_t i = 0; i < 100; ++i) {
    prompts.insert(first.prompt(first.load_request(i)));
    prompts.insert(second.prompt(second.load_request(i)));
  }

  EXPECT_EQ(prompts.size(), 200u);
}

TEST(RequestGenerator, GivesTheSameBlockTheSameTextInEveryPromptOfATrace) {
  Trace trace;
  trace.rows.push_back({.prompt_tokens = 1200, .output_tokens = 1, .block_ids = {0, 5, 9}});
  trace.rows.push_back({.prompt_tokens = 1100, .output_tokens = 1, .block_ids = {0, 5, 10}});
  trace.rows.push_back({.prompt_tokens = 600, .output_tokens = 1, .block_ids = {1, 5}});
  const LoadOptions options;
  const RequestGenerator generator(options, "m", &trace);

  const std::string a = generator.prompt(generator.load_request(0));
  const std::string b = generator.prompt(generator.load_request(1));
  const std::string c = generator.prompt(generator.load_request(2));

  constexpr std::size_t block = 4 * trace_block_tokens;
  EXPECT_EQ(a.size(), 4800u);
  EXPECT_EQ(b.size(), 4400u);
  EXPECT_EQ(a.substr(0, 2 * block), b.substr(0, 2 * block));
  EXPECT_NE(a.substr(2 * block, 64), b.substr(2 * block, 64));
  EXPECT_NE(a.substr(0, 64), c.substr(0, 64));
  EXPECT_EQ(a.substr(block, c.size() - block), c.substr(block));
}

TEST(RequestGenerator, CutsPromptsOfATraceAtTheLimit) {
  Trace trace;
  trace.rows.push_back({.prompt_tokens = 90'000, .output_tokens = 0, .block_ids = {0, 1, 2}});
  const LoadOptions options{.max_prompt_tokens = 700};
  const RequestGenerator generator(options, "m", &trace);

  const LoadRequest load_request = generator.load_request(0);

  EXPECT_EQ(load_request.prompt_tokens, 700u);
  EXPECT_EQ(load_request.output_tokens, 1u);
  EXPECT_EQ(generator.prompt(load_request).size(), 2800u);
}

TEST(RequestGenerator, WritesAChatCompletion) {
  Trace trace;
  trace.rows.push_back({.prompt_tokens = 2, .output_tokens = 7, .tenant = "te\"n"});
  LoadOptions options;
  const RequestGenerator generator(options, "a\\b", &trace);

  const LoadRequest load_request = generator.load_request(0);
  const std::string whole = generator.body(load_request);
  options.stream = true;
  const std::string streamed = generator.body(load_request);

  EXPECT_EQ(whole, R"({"model":"a\\b","messages":[{"role":"user","content":")" +
                       generator.prompt(load_request) +
                       R"("}],"max_tokens":7,"ignore_eos":true,"user":"te\"n"})");
  EXPECT_THAT(whole, Not(HasSubstr("stream")));
  EXPECT_THAT(streamed, HasSubstr(R"("stream":true,"stream_options":{"include_usage":true}})"));
}

}  // namespace
}  // namespace evenkeel
