#include "evenkeel/inference/json_value.h"

#include <gtest/gtest.h>

namespace evenkeel {
namespace {

TEST(JsonValue, HasTheValuesOfTheDocument) {
  const auto document =
      parse_json(R"({"text": "\u00e9\n", "on": true, "n": -2.5, "none": null, "list": [1, {"k": 2}],
                     "large": 18446744073709551615})");

  ASSERT_TRUE(document.ok());
  EXPECT_EQ((*document)["text"].text(), "é\n");
  EXPECT_TRUE((*document)["on"].truth());
  EXPECT_EQ((*document)["n"].number(), -2.5);
  EXPECT_TRUE((*document)["none"].is_null());
  ASSERT_EQ((*document)["list"].items().size(), 2u);
  EXPECT_EQ((*document)["list"].items()[1]["k"].number(), 2);
  EXPECT_EQ((*document)["large"].number(), 18446744073709551615.0);
  EXPECT_EQ(document->members().front().first, "text");
}

TEST(JsonValue, ReturnsEmptyResultsForOtherTypes) {
  const auto document = parse_json(R"({"n": 1, "list": []})");

  ASSERT_TRUE(document.ok());
  const JsonValue& missing = (*document)["no"]["such"]["thing"];
  EXPECT_TRUE(missing.is_null());
  EXPECT_EQ(missing.text(), "");
  EXPECT_EQ(missing.number(), std::nullopt);
  EXPECT_FALSE(missing.truth());
  EXPECT_TRUE(missing.items().empty());
  EXPECT_TRUE((*document)["n"].members().empty());
  EXPECT_TRUE((*document)["list"].is_array());
  EXPECT_FALSE((*document)["list"].is_object());
}

TEST(JsonValue, RefusesWhatIsNotJson) {
  for (const char* text : {"", "{", "[1,]", "{} {}", "<html>", "{\"a\":1e999}", "\"\xFF\""}) {
    EXPECT_FALSE(parse_json(text).ok()) << text;
  }
  EXPECT_FALSE(parse_json(std::string(100'000, '[')).ok()) << "nested too deep";
}

}  // namespace
}  // namespace evenkeel
