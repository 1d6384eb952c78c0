#include "evenkeel/inference/model_cards.h"

#include <gtest/gtest.h>

#include <string>

namespace evenkeel {
namespace {

TEST(ModelCards, AreReadFromAListOfModels) {
  const auto cards = read_model_cards(
      R"({"object":"list","data":[{"id":"a","object":"model","created":1700000000,"owned_by":"vllm"},{"id":"b"}]})");
  ASSERT_TRUE(cards);
  ASSERT_EQ(cards->size(), 2u);
  EXPECT_EQ((*cards)[0].id, "a");
  EXPECT_EQ((*cards)[0].owner, "vllm");
  EXPECT_EQ((*cards)[0].created, 1'700'000'000);
  EXPECT_EQ((*cards)[0].details, "");
  EXPECT_EQ((*cards)[1].id, "b");
  EXPECT_EQ((*cards)[1].created, 0);
}

TEST(ModelCards, KeepTheOtherFieldsOfAModel) {
  const auto cards = read_model_cards(
      R"({"data":[{"id":"a","root":"/m\u00e9","parent":null,"max_model_len":4096,)"
      R"("permission":[{"id":"modelperm-1"}],"meta":{"n":[1, 2.5e3],"ok":true}}]})");
  ASSERT_TRUE(cards);
  EXPECT_EQ(cards->front().details,
            "\"root\":\"/m\xc3\xa9\",\"parent\":null,\"max_model_len\":4096,"
            "\"meta\":{\"n\":[1,2.5e3],\"ok\":true}");
}

TEST(ModelCards, TellTheBaseModelOfAnAdapter) {
  const auto cards = read_model_cards(
      R"({"data":[{"id":"llama","parent":null},{"id":"sql","parent":"l\"ama","root":"/sql"},)"
      R"({"id":"odd","parent":7}]})");
  ASSERT_TRUE(cards);
  EXPECT_EQ((*cards)[0].parent, "");
  EXPECT_EQ((*cards)[1].parent, "l\"ama");
  EXPECT_EQ((*cards)[1].details, R"("parent":"l\"ama","root":"/sql")");
  EXPECT_EQ((*cards)[2].parent, "");
  EXPECT_EQ((*cards)[2].details, R"("parent":7)");
  EXPECT_FALSE(
      (*cards)[0].same_model({.id = "llama", .parent = "x", .details = "\"parent\":null"}));
}

TEST(ModelCards, DropDetailsThatAreTooLong) {
  const std::string text =
      R"({"data":[{"id":"a","root":")" + std::string(ModelCard::max_details, 'x') + R"("}]})";
  const auto cards = read_model_cards(text);
  ASSERT_TRUE(cards);
  EXPECT_EQ(cards->front().id, "a");
  EXPECT_EQ(cards->front().details, "");
}

TEST(ModelCards, HaveNoTimeThatIsNone) {
  for (const std::string created : {"\"yesterday\"", "null", "-5", "1e300", "{}"}) {
    const auto cards = read_model_cards(R"({"data":[{"id":"a","created":)" + created + "}]}");
    ASSERT_TRUE(cards) << created;
    EXPECT_EQ(cards->front().created, 0) << created;
  }
}

TEST(ModelCards, AreKeptWhateverStandsBesideThem) {
  for (const std::string odd : {R"({"id":1})", R"({"id":null,"x":[]})", "\"b\"", "7", "null", "[]",
                                "{}", R"({"owned_by":"b"})"}) {
    std::size_t count = 0;
    const auto cards =
        read_model_cards(R"({"data":[{"id":"a"},)" + odd + R"(,{"id":"c"}]})", &count);
    ASSERT_TRUE(cards) << odd;
    ASSERT_EQ(cards->size(), 2u) << odd;
    EXPECT_EQ((*cards)[0].id, "a") << odd;
    EXPECT_EQ((*cards)[1].id, "c") << odd;
    EXPECT_EQ(count, 1u) << odd;
  }
  const auto owned = read_model_cards(R"({"data":[{"id":"a","owned_by":7}]})");
  ASSERT_TRUE(owned);
  EXPECT_EQ(owned->front().owner, "");
}

TEST(ModelCards, AreNotReadFromAnythingElse) {
  for (const std::string text :
       {"", "[]", "{}", R"({"data":{}})", R"({"data":[{"id":1}]})",
        R"({"data":[{"id":"b"},{"id":"a","x":{bad}}]})", R"({"data":[{"id":"a"})"}) {
    EXPECT_FALSE(read_model_cards(text)) << text;
  }
}

TEST(ModelCards, AreNotReadFromWhatIsNestedTooDeeply) {
  const auto nested = [](std::size_t levels) {
    return std::string(levels, '[') + std::string(levels, ']');
  };
  for (const std::string key : {"kept", "permission"}) {
    const auto cards_of = [&](std::size_t levels) {
      return read_model_cards(R"({"data":[{"id":"a",")" + key + R"(":)" + nested(levels) + "}]}");
    };
    EXPECT_TRUE(cards_of(500)) << key;
    EXPECT_FALSE(cards_of(500'000)) << key;
  }
  EXPECT_FALSE(read_model_cards(R"({"other":)" + nested(500'000) + "}"));
}

TEST(ModelCards, AreOfTheSameModelWhateverTheTime) {
  const ModelCard card{.id = "a", .owner = "vllm", .created = 1, .details = "\"n\":1"};
  ModelCard other = card;
  other.created = 2;
  EXPECT_TRUE(card.same_model(other));
  other.details = "\"n\":2";
  EXPECT_FALSE(card.same_model(other));
}

}  // namespace
}  // namespace evenkeel
