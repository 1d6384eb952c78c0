#include "evenkeel/inference/batch_answer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "evenkeel/json/value.h"

namespace evenkeel {
namespace {

using testing::ElementsAre;

std::vector<std::uint64_t> shared(std::uint64_t total, const std::vector<TokenWeight>& weights) {
  std::vector<BatchShare> shares(weights.size());
  share_tokens(total, weights, shares);
  std::vector<std::uint64_t> tokens;
  for (const BatchShare& each : shares) tokens.push_back(each.tokens);
  return tokens;
}

TEST(TokensOfABatch, GoToItsRequestsInProportion) {
  EXPECT_THAT(shared(30, {{.tokens = 1}, {.tokens = 2}}), ElementsAre(10, 20));
  EXPECT_THAT(shared(10, {{.tokens = 1}, {.tokens = 1}, {.tokens = 1}}), ElementsAre(3, 3, 4));
  EXPECT_THAT(shared(0, {{.tokens = 1}, {.tokens = 1}}), ElementsAre(0, 0));
}

TEST(TokensOfABatch, AreExactWhereTheyAreKnown) {
  const TokenWeight known{.tokens = 5, .is_exact = true};
  EXPECT_THAT(shared(10, {known, {.tokens = 3}, {.tokens = 3}}), ElementsAre(5, 2, 3));
  EXPECT_THAT(shared(8, {known, {.tokens = 3, .is_exact = true}}), ElementsAre(5, 3));
  EXPECT_THAT(shared(16, {known, {.tokens = 3, .is_exact = true}}), ElementsAre(10, 6))
      << "the server counts otherwise";
  EXPECT_THAT(shared(4, {known, {.tokens = 3}}), ElementsAre(2, 2)) << "they do not fit";
}

TEST(TokensOfABatch, AlwaysMakeUpTheTotal) {
  std::mt19937_64 random(3);
  for (int round = 0; round < 2000; ++round) {
    std::vector<TokenWeight> weights(1 + random() % 9);
    std::uint64_t all = 0;
    for (TokenWeight& each : weights) {
      each = {.tokens = random() % (round % 2 == 0 ? 5 : 1'000'000), .is_exact = random() % 3 == 0};
      all += each.tokens;
    }
    if (all == 0) continue;  // no request is without any
    const std::uint64_t total = random() % 4 == 0 ? all : random() % 3'000'000;
    const auto tokens = shared(total, weights);
    EXPECT_EQ(std::accumulate(tokens.begin(), tokens.end(), std::uint64_t{0}), total) << round;
  }
}

constexpr const char* answer =
    R"({"object":"list","data":[{"object":"embedding","index":0,"embedding":[0.10,-2e-3]}, )"
    R"({"object":"embedding","index":1,"embedding":"AAA="},{"index":2,"embedding":[3],"object":"embedding"}],)"
    R"("model":"m","usage":{"prompt_tokens":9,"total_tokens":9,"completion_tokens":0,)"
    R"("prompt_tokens_details":{"cached_tokens":3}},"id":"embd-1"})";

TEST(AnswersOfEmbeddings, AreTakenApartWithTheirBytes) {
  const auto read = BatchAnswer::read(BatchApi::embeddings, answer, 3);
  ASSERT_TRUE(read);
  EXPECT_EQ(read->prompt_tokens(), 9U);
  std::vector<BatchShare> shares(2);
  shares[0].rows = 1;
  shares[1].first_row = 1;
  shares[1].rows = 2;
  const std::vector<TokenWeight> weights{{.tokens = 1}, {.tokens = 2}};
  share_tokens(9, weights, shares);
  EXPECT_EQ(
      read->part(shares[0], 9),
      R"({"object":"list","data":[{"object":"embedding","index":0,"embedding":[0.10,-2e-3]}],)"
      R"("model":"m","usage":{"prompt_tokens":3,"total_tokens":3,"completion_tokens":0,)"
      R"("prompt_tokens_details":{"cached_tokens":1}},"id":"embd-1"})");
  EXPECT_EQ(read->part(shares[1], 9),
            R"({"object":"list","data":[{"object":"embedding","index":0,"embedding":"AAA="},)"
            R"({"index":1,"embedding":[3],"object":"embedding"}],)"
            R"("model":"m","usage":{"prompt_tokens":6,"total_tokens":6,"completion_tokens":0,)"
            R"("prompt_tokens_details":{"cached_tokens":2}},"id":"embd-1"})");
}

TEST(AnswersOfEmbeddings, GoByTheIndexWhateverTheOrder) {
  const auto read =
      BatchAnswer::read(BatchApi::embeddings,
                        R"({"data":[{"index":1,"embedding":"b"},{"embedding":"a","index":0}]})", 2);
  ASSERT_TRUE(read);
  EXPECT_EQ(read->part({.first_row = 0, .rows = 1}, 0),
            R"({"data":[{"embedding":"a","index":0}]})");
  EXPECT_EQ(read->part({.first_row = 1, .rows = 1}, 0),
            R"({"data":[{"index":0,"embedding":"b"}]})");
}

TEST(AnswersOfEmbeddings, AreNotTakenApartIfAnOutputIsMissingOrTwice) {
  const auto reads = [](const char* json, std::uint64_t rows) {
    return BatchAnswer::read(BatchApi::embeddings, json, rows).has_value();
  };
  EXPECT_TRUE(reads(R"({"data":[{"embedding":[]},{"embedding":[]}]})", 2));
  for (const char* const json :
       {R"({"data":[{"index":0}]})", R"({"data":[{"index":0},{"index":0}]})",
        R"({"data":[{"index":0},{"index":2}]})",
        R"({"data":[{"index":0},{"index":1},{"index":2}]})", R"({"data":[[1],[2]]})",
        R"({"data":{}})", R"({"error":"no"})", R"([[1],[2]])",
        R"({"data":[{"index":0},{"index":1}],"data":[]})", R"({"data":[{"index":0},{"index":-1}]})",
        R"({"data":[{"index":0},{"index":1,"index":0}]})", ""})
    EXPECT_FALSE(reads(json, 2)) << json;
}

TEST(AnswersOfEmbeddings, AreNotTakenApartWhereverTheyAreCut) {
  const std::string whole = answer;
  for (std::size_t size = 0; size < whole.size(); ++size)
    EXPECT_FALSE(BatchAnswer::read(BatchApi::embeddings, whole.substr(0, size), 3)) << size;
}

TEST(AnswersOfEmbeddings, CutAtRandomAreThoseOfTheRequests) {
  std::mt19937 random(11);
  for (int round = 0; round < 300; ++round) {
    const std::uint64_t rows = 1 + random() % 12;
    std::string data;
    for (std::uint64_t i = 0; i < rows; ++i) {
      if (i > 0) data += ", ";
      data += R"({"index": )" + std::to_string(i) + R"(, "embedding": [)" + std::to_string(i * 7) +
              R"(, 1e-7]})";
    }
    const std::string json = R"({"data": [ )" + data + R"( ], "usage": {"prompt_tokens": 100}})";
    const auto read = BatchAnswer::read(BatchApi::embeddings, json, rows);
    ASSERT_TRUE(read) << json;
    std::vector<BatchShare> shares;
    for (std::uint64_t first = 0; first < rows;) {
      const std::uint64_t count = 1 + random() % (rows - first);
      shares.push_back({.first_row = first, .rows = count});
      first += count;
    }
    std::vector<TokenWeight> weights;
    for (const BatchShare& each : shares) weights.push_back({.tokens = each.rows});
    share_tokens(100, weights, shares);
    std::uint64_t tokens = 0;
    for (const BatchShare& each : shares) {
      const auto part = parse_json(read->part(each, 100));
      ASSERT_TRUE(part);
      const auto& items = (*part)["data"].items();
      ASSERT_EQ(items.size(), each.rows);
      for (std::size_t i = 0; i < items.size(); ++i) {
        EXPECT_EQ(items[i]["index"].number(), static_cast<double>(i));
        EXPECT_EQ(items[i]["embedding"].items()[0].number(),
                  static_cast<double>((each.first_row + i) * 7));
      }
      tokens += static_cast<std::uint64_t>(*(*part)["usage"]["prompt_tokens"].number());
    }
    EXPECT_EQ(tokens, 100U);
  }
}

TEST(AnswersOfTensors, AreTakenApartByRows) {
  const auto read = BatchAnswer::read(
      BatchApi::kserve,
      R"({"id":"a","model_name":"m","outputs":[{"name":"y","shape":[3,2],"data":[1, 2,3,4, 5,6]},)"
      R"({"name":"z","data":[["a"],["b"],["c"]],"shape":[3,1]}]})",
      3);
  ASSERT_TRUE(read);
  EXPECT_EQ(read->part({.first_row = 0, .rows = 1, .id = "\"a\""}, 0),
            R"({"id":"a","model_name":"m","outputs":[{"name":"y","shape":[1,2],"data":[1, 2]},)"
            R"({"name":"z","data":[["a"]],"shape":[1,1]}]})");
  EXPECT_EQ(
      read->part({.first_row = 1, .rows = 2, .id = "\"own\""}, 0),
      R"({"id":"own","model_name":"m","outputs":[{"name":"y","shape":[2,2],"data":[3,4,5,6]},)"
      R"({"name":"z","data":[["b"],["c"]],"shape":[2,1]}]})");
}

TEST(AnswersOfTensors, AreNotTakenApartIfTheyHaveOtherRows) {
  for (const char* const output :
       {R"({"shape":[2,1],"data":[1,2]})", R"({"shape":[3,1],"data":[1,2]})",
        R"({"shape":[3,2],"data":[[1,2,3],[4,5,6]]})", R"({"shape":[3,1],"data":[]})",
        R"({"shape":[3,1],"parameters":{"binary_data_size":12}})", R"({"data":[1,2,3]})"}) {
    const std::string json = R"({"outputs":[)" + std::string(output) + "]}";
    EXPECT_FALSE(BatchAnswer::read(BatchApi::kserve, json, 3)) << output;
  }
}

}  // namespace
}  // namespace evenkeel
