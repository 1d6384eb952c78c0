#include "evenkeel/json/value.h"

#include <gtest/gtest.h>

#include <cmath>
#include <optional>
#include <string>

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
  for (const char* text : {"", "{", "[1,]", "{} {}", "<html>", "1,2", "1],[2", "{\"a\":01}",
                           "{\"a\":1.}", "nul", "\"\xFF\"", "\"\\q\""}) {
    EXPECT_FALSE(parse_json(text).ok()) << text;
  }
  EXPECT_FALSE(parse_json(std::string(100'000, '[')).ok()) << "nested too deep";
}

TEST(JsonValue, IsWrittenAsItWasReadWithoutSpaces) {
  const std::string text =
      R"({"n":[1,-2.50,3e2,99999999999999999999999,1e999],"s":"a\"b\n","t":true,"z":null,"o":{}})";
  const auto document = parse_json(text);
  ASSERT_TRUE(document.ok());
  EXPECT_EQ(json_text(*document), text);
  EXPECT_EQ((*document)["n"].items()[4].number(), std::nullopt) << "no double is that large";
  EXPECT_EQ(json_text(*parse_json(" 7 ")), "7");
}

TEST(JsonValue, IsBuiltMemberByMember) {
  JsonValue inner;
  inner.add("c", std::optional<double>(0.5));
  inner.add("none", std::optional<double>());
  JsonValue value;
  value.add("a", JsonValue::List{"x", true, std::nan("")});
  value.add("b", std::move(inner));
  EXPECT_EQ(json_text(value), R"({"a":["x",true,null],"b":{"c":0.5,"none":null}})");
  EXPECT_EQ(value, *parse_json(json_text(value)));
}

TEST(JsonValue, HasTheLastOfSeveralMembersWithOneName) {
  EXPECT_EQ((*parse_json(R"({"a":1,"a":2})"))["a"].number(), 2);
}

}  // namespace
}  // namespace evenkeel
