#include "evenkeel/inference/token_estimates.h"

#include <gtest/gtest.h>

#include <cmath>

namespace evenkeel {
namespace {

InferenceRequest prompt_of(std::uint64_t bytes) {
  InferenceRequest request;
  request.model = "m";
  request.complete = true;
  request.prompt_bytes = bytes;
  return request;
}

TEST(TokenEstimates, BeginWithFourBytesPerToken) {
  const TokenEstimates estimates;

  EXPECT_EQ(estimates.prompt_tokens_of(prompt_of(0)), 0u);
  EXPECT_EQ(estimates.prompt_tokens_of(prompt_of(1)), 1u);
  EXPECT_EQ(estimates.prompt_tokens_of(prompt_of(4000)), 1000u);
}

TEST(TokenEstimates, AddTokenIdsAndImages) {
  const TokenEstimates estimates;
  InferenceRequest request = prompt_of(400);
  request.prompt_tokens = 7;
  request.images = 2;

  EXPECT_EQ(estimates.prompt_tokens_of(request), 107 + 2 * TokenEstimates::tokens_per_image);
}

TEST(TokenEstimates, LearnEachModelFromWhatItsEngineCounts) {
  TokenEstimates estimates;

  for (int i = 0; i < 100; ++i) estimates.learn(prompt_of(5000), 2000);

  EXPECT_NEAR(estimates.bytes_per_token("m"), 2.5, 0.05);
  EXPECT_EQ(estimates.bytes_per_token("another"), 4.0);
  EXPECT_NEAR(static_cast<double>(estimates.prompt_tokens_of(prompt_of(2500))), 1000, 20);
}

TEST(TokenEstimates, BelieveTheFirstLongPrompt) {
  TokenEstimates estimates;
  estimates.learn(prompt_of(100), 50);
  estimates.learn(prompt_of(3000), 1000);
  EXPECT_NEAR(estimates.bytes_per_token("m"), 3, 0.001);

  estimates.learn(prompt_of(2000), 1000);
  EXPECT_NEAR(estimates.bytes_per_token("m"), 2.9, 0.001) << "later ones have a tenth";
}

TEST(TokenEstimates, LearnLittleFromShortPromptsWhichAreMostlyTemplate) {
  TokenEstimates estimates;

  for (int i = 0; i < 100; ++i) estimates.learn(prompt_of(5), 30);
  EXPECT_EQ(estimates.bytes_per_token("m"), 4.0);
  estimates.learn(prompt_of(100), 50);

  EXPECT_GT(estimates.bytes_per_token("m"), 3.97);
}

TEST(TokenEstimates, LearnNothingFromPromptsThatAreNotKnownCompletely) {
  TokenEstimates estimates;
  InferenceRequest cut = prompt_of(5000);
  cut.complete = false;
  InferenceRequest image = prompt_of(5000);
  image.images = 1;
  InferenceRequest ids = prompt_of(5000);
  ids.prompt_tokens = 1;

  for (const InferenceRequest& request : {cut, image, ids}) estimates.learn(request, 5000);
  estimates.learn(prompt_of(5000), 0);

  EXPECT_EQ(estimates.bytes_per_token("m"), 4.0);
}

TEST(TokenEstimates, StayWithinReason) {
  TokenEstimates estimates;

  for (int i = 0; i < 1000; ++i) estimates.learn(prompt_of(1'000'000), 1);
  EXPECT_LE(estimates.bytes_per_token("m"), 32);
  for (int i = 0; i < 1000; ++i) estimates.learn(prompt_of(1000), 1'000'000);

  EXPECT_GE(estimates.bytes_per_token("m"), 0.4);
}

TEST(TokenEstimates, ContinueWithWhatAnotherProcessHasLearned) {
  TokenEstimates before;
  before.learn(prompt_of(5000), 2000);
  InferenceRequest other = prompt_of(200);
  other.model = "other";
  for (int i = 0; i < 20; ++i) before.learn(other, 100);

  TokenEstimates estimates;
  estimates.restore(before.learned());

  ASSERT_EQ(before.learned().size(), 2u);
  EXPECT_EQ(estimates.learned(), before.learned());
  EXPECT_NEAR(estimates.bytes_per_token("m"), 2.5, 0.001);
  EXPECT_EQ(estimates.bytes_per_token("other"), before.bytes_per_token("other"));
}

TEST(TokenEstimates, IgnoreWhatNoPromptTeaches) {
  TokenEstimates good;
  good.learn(prompt_of(5000), 2000);
  TokenEstimates estimates;
  for (const double ratio : {0.0, -2.5, 1e300, std::nan("")}) {
    auto learned = good.learned();
    learned.at(0).bytes_per_token = ratio;
    estimates.restore(learned);
  }
  EXPECT_EQ(estimates.bytes_per_token("m"), 4.0);
}

}  // namespace
}  // namespace evenkeel
