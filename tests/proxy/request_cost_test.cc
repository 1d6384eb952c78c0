#include "proxy/request_cost.h"

#include <gtest/gtest.h>

#include <memory>

#include "evenkeel/base/hash.h"
#include "evenkeel/config/config.h"
#include "evenkeel/inference/token_estimates.h"

namespace evenkeel {
namespace {

/// A chat with so much text, of four bytes for each token, and what else it has.
Request chat_of(std::uint64_t bytes, std::uint32_t images, std::uint64_t token_ids) {
  Request request;
  request.info.inference = std::make_unique<InferenceInfo>();
  InferenceRequest& asked = request.info.inference->request;
  asked.task = InferenceTask::chat;
  asked.complete = true;
  asked.prompt_bytes = bytes;
  asked.images = images;
  asked.prompt_tokens = token_ids;
  asked.estimated_prompt_tokens = TokenEstimates().prompt_tokens_of(asked);
  return request;
}

TEST(RequestCost, BlocksHaveTheTokensOfTextAlone) {
  for (const std::uint32_t images : {0u, 1u, 100u}) {
    const Request request = chat_of(4096, images, 0);
    EXPECT_DOUBLE_EQ(cost_of(request, SloConfig()).arrival.tokens_per_block, 256) << images;
  }
  const Request with_ids = chat_of(4096, 0, 5000);
  EXPECT_DOUBLE_EQ(cost_of(with_ids, SloConfig()).arrival.tokens_per_block, 256);
  const Request without_text = chat_of(0, 2, 0);
  EXPECT_DOUBLE_EQ(cost_of(without_text, SloConfig()).arrival.tokens_per_block, 256);
}

TEST(RequestCost, HasTheNameOfTheModelThatTheBackendsGet) {
  Request request = chat_of(4096, 0, 0);
  request.info.inference->request.model = "sql";

  EXPECT_EQ(cost_of(request, SloConfig()).model, hash_of("sql"));
  EXPECT_EQ(cost_of(request, SloConfig(), hash_of("served")).model, hash_of("served"));
}

}  // namespace
}  // namespace evenkeel
