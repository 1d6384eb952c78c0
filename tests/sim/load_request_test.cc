#include "sim/load_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace evenkeel {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(AskBook, MakesTheSameRequestOfTheSameSeedAndNumber) {
  const LoadOptions options{.prompt_tokens = {10, 90}, .output_tokens = {1, 50}, .seed = 3};
  const AskBook book(options, "m", nullptr);
  const AskBook again(options, "m", nullptr);

  for (const std::uint64_t index : {7u, 0u, 123456u}) {
    EXPECT_EQ(book.body(book.ask(index)), again.body(again.ask(index)));
  }
  EXPECT_NE(book.prompt(book.ask(1)), book.prompt(book.ask(2)));
}

TEST(AskBook, DrawsLengthsFromTheWholeRange) {
  const LoadOptions options{.prompt_tokens = {3, 5}, .output_tokens = {10, 10}};
  const AskBook book(options, "m", nullptr);

  std::set<std::uint32_t> seen;
  for (std::uint64_t i = 0; i < 200; ++i) {
    const Ask ask = book.ask(i);
    seen.insert(ask.prompt_tokens);
    EXPECT_EQ(ask.output_tokens, 10u);
    EXPECT_EQ(book.prompt(ask).size(), 4 * ask.prompt_tokens);
  }

  EXPECT_EQ(seen, (std::set<std::uint32_t>{3, 4, 5}));
}

TEST(AskBook, HasUnrelatedPromptsForUnrelatedSeeds) {
  const LoadOptions one{.prompt_tokens = {16, 16}, .seed = 1};
  const LoadOptions two{.prompt_tokens = {16, 16}, .seed = 2};
  const AskBook first(one, "m", nullptr);
  const AskBook second(two, "m", nullptr);

  std::set<std::string> prompts;
  for (std::uint64_t i = 0; i < 100; ++i) {
    prompts.insert(first.prompt(first.ask(i)));
    prompts.insert(second.prompt(second.ask(i)));
  }

  EXPECT_EQ(prompts.size(), 200u);
}

TEST(AskBook, GivesTheSameBlockTheSameTextInEveryPromptOfATrace) {
  Trace trace;
  trace.rows.push_back({.prompt_tokens = 1200, .output_tokens = 1, .block_ids = {0, 5, 9}});
  trace.rows.push_back({.prompt_tokens = 1100, .output_tokens = 1, .block_ids = {0, 5, 10}});
  trace.rows.push_back({.prompt_tokens = 600, .output_tokens = 1, .block_ids = {1, 5}});
  const LoadOptions options;
  const AskBook book(options, "m", &trace);

  const std::string a = book.prompt(book.ask(0));
  const std::string b = book.prompt(book.ask(1));
  const std::string c = book.prompt(book.ask(2));

  constexpr std::size_t block = 4 * trace_block_tokens;
  EXPECT_EQ(a.size(), 4800u);
  EXPECT_EQ(b.size(), 4400u);
  EXPECT_EQ(a.substr(0, 2 * block), b.substr(0, 2 * block));
  EXPECT_NE(a.substr(2 * block, 64), b.substr(2 * block, 64));
  EXPECT_NE(a.substr(0, 64), c.substr(0, 64));
  EXPECT_EQ(a.substr(block, c.size() - block), c.substr(block));
}

TEST(AskBook, CutsPromptsOfATraceAtTheLimit) {
  Trace trace;
  trace.rows.push_back({.prompt_tokens = 90'000, .output_tokens = 0, .block_ids = {0, 1, 2}});
  const LoadOptions options{.max_prompt_tokens = 700};
  const AskBook book(options, "m", &trace);

  const Ask ask = book.ask(0);

  EXPECT_EQ(ask.prompt_tokens, 700u);
  EXPECT_EQ(ask.output_tokens, 1u);
  EXPECT_EQ(book.prompt(ask).size(), 2800u);
}

TEST(AskBook, WritesAChatCompletion) {
  Trace trace;
  trace.rows.push_back({.prompt_tokens = 2, .output_tokens = 7, .tenant = "te\"n"});
  LoadOptions options;
  const AskBook book(options, "a\\b", &trace);

  const Ask ask = book.ask(0);
  const std::string whole = book.body(ask);
  options.stream = true;
  const std::string streamed = book.body(ask);

  EXPECT_EQ(whole, R"({"model":"a\\b","messages":[{"role":"user","content":")" + book.prompt(ask) +
                       R"("}],"max_tokens":7,"ignore_eos":true,"user":"te\"n"})");
  EXPECT_THAT(whole, Not(HasSubstr("stream")));
  EXPECT_THAT(streamed, HasSubstr(R"("stream":true,"stream_options":{"include_usage":true}})"));
}

}  // namespace
}  // namespace evenkeel
