#include "evenkeel/json/walk.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace evenkeel {
namespace {

/// Writes down all that it is shown: one letter for a key of one letter.
class Listing {
 public:
  explicit Listing(std::string_view json, std::size_t piece) {
    for (std::size_t at = 0; at < json.size(); at += piece) {
      const std::string part(json.substr(at, piece));  // for the sanitizers
      walk_.read(part);
    }
  }

  std::uint8_t key(std::string_view name) {
    return name.size() == 1 ? static_cast<std::uint8_t>(name[0]) : std::uint8_t{0};
  }
  void string(std::string_view value) { place().append("'").append(value).append("' "); }
  void number(std::uint64_t value) { place().append(std::to_string(value)).append(" "); }
  void opened() { text += walk_.in_object() ? "{ " : "[ "; }
  void closing() { text += walk_.in_object() ? "} " : "] "; }

  std::string text;

 private:
  std::string& place() {
    for (std::size_t up = walk_.objects(); up-- > 0;) {
      if (walk_.parent(up) != 0) text += static_cast<char>(walk_.parent(up)), text += '.';
    }
    if (walk_.key() != 0) text += static_cast<char>(walk_.key()), text += '=';
    return text;
  }

  JsonWalk<Listing> walk_{*this};

 public:
  JsonWalk<Listing>& walk() { return walk_; }
};

void expect_shown(std::string_view json, std::string_view shown) {
  for (std::size_t piece = 1; piece <= json.size(); ++piece) {
    EXPECT_EQ(Listing(json, piece).text, shown) << json << " in pieces of " << piece;
  }
}

TEST(JsonWalk, ShowsStringsAndNumbersWithTheKeysAboveThem) {
  expect_shown(R"({"a":"x","b":{"c":12,"d" : "y"},"e": 7 })", "{ a='x' { b.c=12 b.d='y' } e=7 } ");
}

TEST(JsonWalk, GivesWhatIsInAListTheKeyOfTheList) {
  expect_shown(R"({"a":[{"b":"x"},{"b":"y"}],"c":["u","v"]})",
               "{ [ { a.b='x' } { a.b='y' } ] [ c='u' c='v' ] } ");
  expect_shown(R"([{"a":1},{"a":[[{"b":2}]]}])", "[ { a=1 } { [ [ { a.b=2 } ] ] } ] ");
}

TEST(JsonWalk, IsNotMisledByWhatStringsHold) {
  expect_shown(R"({"a":"\"b\":1,{[","c":2})", R"({ a='\"b\":1,{[' c=2 } )");
  expect_shown(R"({"a":"\\","b":"\\\"","c":""})", R"({ a='\\' b='\\\"' c='' } )");
}

TEST(JsonWalk, ShowsNumbersOfKnownKeysOnly) {
  expect_shown(R"({"a":-1,"b":2.75,"cc":3,"d":null,"e":true,"f":0})", "{ b=2 f=0 } ");
  expect_shown(R"({"a":99999999999999999999999999,"b":1})", "{ a=9999999999999999999 b=1 } ");
}

TEST(JsonWalk, PassesOverLongListsOfNumbers) {
  std::string json = R"({"a":[0.125)";
  for (int i = 0; i < 100; ++i) json += ",-0.0078125";
  expect_shown(json + R"(],"b":"x"})", "{ [ ] b='x' } ");
}

TEST(JsonWalk, ShowsDocumentsOneAfterTheOther) {
  expect_shown(R"({"a":"x"}{"b":"y"} {"c":1})", "{ a='x' } { b='y' } { c=1 } ");
}

TEST(JsonWalk, ShowsNothingBelowItsDepthAndGoesOnAboveIt) {
  constexpr auto depth = JsonWalk<Listing>::max_depth;
  const std::string deep =
      std::string(depth + 10, '[') + R"("x",{"a":1})" + std::string(depth + 10, ']');
  std::string opens;
  std::string closes;
  for (std::size_t i = 0; i + 1 < depth; ++i) {
    opens += "[ ";
    closes += "] ";
  }

  expect_shown(R"({"a":)" + deep + R"(,"b":2})", "{ " + opens + closes + "b=2 } ");
}

TEST(JsonWalk, CutsLongStringsOnlyIfTheyArriveInPieces) {
  const std::string text(200, 'x');
  const std::string json = R"({"a":")" + text + R"("})";

  EXPECT_EQ(Listing(json, json.size()).text, "{ a='" + text + "' } ");
  EXPECT_EQ(Listing(json, 10).text, "{ a='" + std::string(64, 'x') + "' } ");
}

TEST(JsonWalk, GoesOnBehindABeginningThatItKnows) {
  Listing listing(R"({"a":["x")", 100);
  listing.text.clear();

  listing.walk().restart_after('b');
  listing.walk().read(R"(:{"c":1},"d":2} {"e":3})");

  EXPECT_EQ(listing.text, "{ b.c=1 } d=2 } { e=3 } ");
}

TEST(JsonWalk, SurvivesWhatIsNotJson) {
  for (const std::string_view text :
       {"}}}]]]", "{]}[", "\"", "{\"a\"{\"b\"", "[}\"a\":1", "{{{{:1"}) {
    for (std::size_t piece = 1; piece <= text.size(); ++piece) Listing(text, piece);
  }
}

}  // namespace
}  // namespace evenkeel
