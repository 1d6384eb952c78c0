#include "evenkeel/inference/batch_body.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <utility>
#include <vector>

#include "evenkeel/json/value.h"

namespace evenkeel {
namespace {

using testing::ElementsAre;

std::optional<BatchBody> embeddings(std::string body) {
  return BatchBody::read(BatchApi::embeddings, std::move(body));
}
std::optional<BatchBody> tensors(std::string body) {
  return BatchBody::read(BatchApi::kserve, std::move(body));
}

std::vector<std::string> common_parts(const BatchBody& body) {
  std::vector<std::string> parts;
  body.each_common_part([&](std::string_view part) { parts.emplace_back(part); });
  return parts;
}

std::string joined(BatchApi api, const std::vector<std::string>& bodies) {
  std::vector<BatchBody> read;
  for (const std::string& each : bodies) {
    auto body = BatchBody::read(api, each);
    EXPECT_TRUE(body) << each;
    if (!body) return {};
    read.push_back(std::move(*body));
  }
  std::vector<const BatchBody*> pointers;
  for (const BatchBody& each : read) {
    EXPECT_EQ(common_parts(each), common_parts(read[0])) << each.bytes();
    pointers.push_back(&each);
  }
  return join_bodies(pointers);
}

TEST(BodiesOfEmbeddings, AreJoinedWithTheBytesOfTheirInputs) {
  EXPECT_EQ(joined(BatchApi::embeddings, {R"({"model": "m", "input": "a\u0062\n", "user":1 })",
                                          R"({"model": "m", "input": ["x" , "\"y"], "user":1 })",
                                          R"({"model": "m", "input": [ "z" ], "user":1 })"}),
            R"({"model": "m", "input": ["a\u0062\n","x" , "\"y","z"], "user":1 })");
  EXPECT_EQ(joined(BatchApi::embeddings, {R"({"input":[1, 2]})", R"({"input":[[3],[4 ,5]]})"}),
            R"({"input":[[1, 2],[3],[4 ,5]]})");
}

TEST(BodiesOfEmbeddings, StayAsTheyAreIfAlone) {
  EXPECT_EQ(joined(BatchApi::embeddings, {R"({"input":["a","b"]})"}), R"({"input":["a","b"]})");
}

TEST(BodiesOfEmbeddings, KnowHowManyInputsTheyHaveAndHowLongTheseAre) {
  const auto one = embeddings(R"({"input": "12345678"})");
  ASSERT_TRUE(one);
  EXPECT_EQ(one->rows(), 1U);
  EXPECT_EQ(one->tokens(4), 2U);
  EXPECT_FALSE(one->has_token_ids());
  const auto list = embeddings(R"({"input": ["1234", "123456789", "\u00e4"]})");
  ASSERT_TRUE(list);
  EXPECT_EQ(list->rows(), 3U);
  EXPECT_EQ(list->max_input_tokens(4), 3U);
  EXPECT_EQ(list->tokens(1), 15U) << "an escape stands for two bytes";
  const auto ids = embeddings(R"({"input": [[1, 2, 3], [4]]})");
  ASSERT_TRUE(ids);
  EXPECT_EQ(ids->rows(), 2U);
  EXPECT_EQ(ids->tokens(4), 4U);
  EXPECT_EQ(ids->max_input_tokens(4), 3U);
  EXPECT_TRUE(ids->has_token_ids());
}

TEST(BodiesOfEmbeddings, HaveLittleInCommonIfSomethingElseDiffers) {
  const auto parts = [](const char* body) { return common_parts(*embeddings(body)); };
  EXPECT_EQ(parts(R"({"input": "a", "dimensions": 3})"),
            parts(R"({"input": ["b","c"], "dimensions": 3})"));
  for (const char* const other :
       {R"({"input": "a", "dimensions": 4})", R"({"input": [1], "dimensions": 3})",
        R"({"dimensions": 3, "input": "a"})", R"({"input": "a", "dimensions": 3, "user": "u"})"})
    EXPECT_NE(parts(R"({"input": "a", "dimensions": 3})"), parts(other)) << other;
}

TEST(BodiesOfEmbeddings, AreNotReadIfSomethingInThemIsNotKnown) {
  for (const char* const body : {R"({})",
                                 R"({"input": []})",
                                 R"({"input": [[]]})",
                                 R"({"input": null})",
                                 R"({"input": 1})",
                                 R"({"input": ["a", 1]})",
                                 R"({"input": [1, "a"]})",
                                 R"({"input": [[1], "a"]})",
                                 R"({"input": [1.5]})",
                                 R"({"input": [-1]})",
                                 R"({"input": [[1, [2]]]})",
                                 R"({"input": {"text": "a"}})",
                                 R"({"input": [{"text": "a"}]})",
                                 R"({"input": "a", "input": "b"})",
                                 R"({"\u0069nput": "a"})",
                                 R"(["input"])",
                                 R"("input")",
                                 R"({"input": "a")",
                                 R"({"input": "a"} x)",
                                 R"({"messages": []})",
                                 ""})
    EXPECT_FALSE(embeddings(body)) << body;
}

TEST(BodiesOfEmbeddings, AreNotReadWhereverTheyAreCut) {
  const std::string body = R"({"model": "m", "input": ["a\u00e4", "b"], "dimensions": 12})";
  for (std::size_t size = 0; size < body.size(); ++size)
    EXPECT_FALSE(embeddings(body.substr(0, size))) << size;
  EXPECT_TRUE(embeddings(body));
}

TEST(BodiesOfEmbeddings, JoinedAtRandomHaveAllInputsInOrder) {
  std::mt19937 random(7);
  const std::vector<std::string> texts = {R"("")",   R"("a")",   R"("\\")",          R"("\"],[")",
                                          R"("{}")", R"("ü\n")", R"("\ud83d\ude00")"};
  for (int round = 0; round < 300; ++round) {
    std::vector<std::string> bodies;
    std::string all;
    const std::size_t requests = 1 + random() % 6;
    for (std::size_t i = 0; i < requests; ++i) {
      const std::size_t inputs = 1 + random() % 4;
      std::string list;
      for (std::size_t k = 0; k < inputs; ++k) {
        const std::string& text = texts[random() % texts.size()];
        list += (k > 0 ? "," : "") + text;
      }
      all += (i > 0 ? "," : "") + list;
      const bool is_single = inputs == 1 && random() % 2 == 0;
      bodies.push_back(R"({"model":"m","input":)" + (is_single ? list : "[" + list + "]") + "}");
    }
    const std::string body = joined(BatchApi::embeddings, bodies);
    const auto document = parse_json(body);
    ASSERT_TRUE(document) << body;
    EXPECT_EQ((*document)["input"], *parse_json("[" + all + "]")) << body;
  }
}

constexpr const char* tensor =
    R"({"id":"a","inputs":[{"name":"x","shape":[2,3],"datatype":"FP32","data":[1,2,3, 4,5,6.50]}]})";

TEST(BodiesOfTensors, AreJoinedAlongTheFirstDimension) {
  EXPECT_EQ(
      joined(
          BatchApi::kserve,
          {tensor,
           R"({"id":"other","inputs":[{"name":"x","shape":[1,3],"datatype":"FP32","data":[ 7,8,9]}]})"}),
      R"({"id":"a","inputs":[{"name":"x","shape":[3,3],"datatype":"FP32","data":[1,2,3, 4,5,6.50,7,8,9]}]})");
  const std::string nested =
      R"({"inputs":[{"shape":[1,2],"data":[[1,2]]},{"shape":[1,1],"data":[["a"]]}]})";
  EXPECT_EQ(
      joined(BatchApi::kserve, {nested, nested}),
      R"({"inputs":[{"shape":[2,2],"data":[[1,2],[1,2]]},{"shape":[2,1],"data":[["a"],["a"]]}]})");
}

TEST(BodiesOfTensors, KnowTheirIdAndTheirRows) {
  const auto body = tensors(tensor);
  ASSERT_TRUE(body);
  EXPECT_EQ(body->id(), "\"a\"");
  EXPECT_EQ(body->rows(), 2U);
  EXPECT_EQ(body->max_input_tokens(4), 0U);
}

TEST(BodiesOfTensors, AreNotReadIfTheDataIsNotWhatTheShapeSays) {
  for (const char* const input :
       {R"({"shape":[2,2],"data":[1,2,3]})", R"({"shape":[2,2],"data":[1,2,3,4,5]})",
        R"({"shape":[2,2],"data":[[1,2,3],[4]]})", R"({"shape":[2,2],"data":[[1,2,3,4]]})",
        R"({"shape":[2],"data":[1,2]})", R"({"shape":[2,2]})", R"({"data":[1]})",
        R"({"shape":[0,2],"data":[]})", R"({"shape":[-1,2],"data":[1,2]})",
        R"({"shape":[1,2],"data":[1,[2]]})", R"({"shape":[1,"2"],"data":[1,2]})",
        R"({"shape":[1,2],"shape":[1,2],"data":[1,2]})",
        R"({"shape":[1,2],"data":[1,2]},{"shape":[2,1],"data":[1,2]})"})
    EXPECT_FALSE(tensors(R"({"inputs":[)" + std::string(input) + "]}")) << input;
  EXPECT_FALSE(tensors(R"({"inputs":[]})"));
  EXPECT_FALSE(tensors(R"({"outputs":[]})"));
}

TEST(BodiesOfTensors, AreNotReadWhereverTheyAreCut) {
  const std::string body = tensor;
  for (std::size_t size = 0; size < body.size(); ++size)
    EXPECT_FALSE(tensors(body.substr(0, size))) << size;
}

}  // namespace
}  // namespace evenkeel
