#include "evenkeel/http/fields.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "evenkeel/base/rng.h"

namespace evenkeel {
namespace {

std::string text_of(const Fields& fields) {
  std::string text;
  for (const Field& field : fields)
    text.append(field.name()).append("=").append(field.value()).append(";");
  return text;
}

constexpr std::string_view known_names[] = {"accept",
                                            "authorization",
                                            "connection",
                                            "content-encoding",
                                            "content-length",
                                            "content-type",
                                            "cookie",
                                            "date",
                                            "expect",
                                            "forwarded",
                                            "host",
                                            "http2-settings",
                                            "keep-alive",
                                            "proxy-authenticate",
                                            "proxy-authorization",
                                            "proxy-connection",
                                            "retry-after",
                                            "server",
                                            "te",
                                            "trailer",
                                            "transfer-encoding",
                                            "upgrade",
                                            "user-agent",
                                            "via",
                                            "x-body-compressed",
                                            "x-forwarded-client-cert",
                                            "x-forwarded-for",
                                            "x-forwarded-host",
                                            "x-forwarded-proto",
                                            "x-priority",
                                            "x-request-id"};

std::string flip_case(std::string_view name, std::uint64_t which) {
  std::string flipped(name);
  for (std::size_t i = 0; i < flipped.size(); ++i) {
    const char c = flipped[i];
    if ((which >> (i % 64) & 1) != 0 && c >= 'a' && c <= 'z')
      flipped[i] = static_cast<char>(c - 'a' + 'A');
  }
  return flipped;
}

TEST(FieldId, KnowsItsNamesInAnyCase) {
  Rng rng(5);
  std::vector<FieldId> seen;
  for (const auto name : known_names) {
    const FieldId id = field_id(name);
    EXPECT_NE(id, FieldId::other) << name;
    EXPECT_EQ(std::find(seen.begin(), seen.end(), id), seen.end()) << name;
    seen.push_back(id);
    for (int i = 0; i < 20; ++i) EXPECT_EQ(field_id(flip_case(name, rng())), id) << name;
  }
}

TEST(FieldId, RecognisesNoOtherName) {
  EXPECT_EQ(field_id(""), FieldId::other);
  EXPECT_EQ(field_id(std::string(500, 'x')), FieldId::other);
  // Every name that differs in one token character.
  for (const auto name : known_names) {
    EXPECT_EQ(field_id(std::string(name) + "s"), FieldId::other) << name;
    for (std::size_t at = 0; at < name.size(); ++at) {
      for (const char c : std::string_view("!#$%&'*+-.^_`|~0189azmAZM")) {
        std::string other(name);
        if (std::tolower(c) == other[at]) continue;
        other[at] = c;
        EXPECT_TRUE(field_id(other) == FieldId::other) << name << " and " << other;
      }
    }
  }
}

TEST(EqualsIgnoreCase, IgnoresCaseOfLettersOnly) {
  EXPECT_TRUE(equals_ignore_case("", ""));
  EXPECT_TRUE(equals_ignore_case({}, {}));
  EXPECT_TRUE(equals_ignore_case("X-aB", "x-Ab"));
  EXPECT_FALSE(equals_ignore_case("x-ab", "x-abc"));
  EXPECT_FALSE(equals_ignore_case("x@", "x`"));
  EXPECT_FALSE(equals_ignore_case("x[", "x{"));
  EXPECT_FALSE(equals_ignore_case("x-", "x\r"));
}

TEST(Fields, KeepTheirOrderAndTheirRepetitions) {
  Fields fields;
  fields.add("A", "1");
  fields.add("Set-Cookie", "x");
  fields.add("a", "2");
  fields.add("set-cookie", "y");

  EXPECT_EQ(text_of(fields), "A=1;Set-Cookie=x;a=2;set-cookie=y;");
  EXPECT_EQ(fields.value("a"), "1");
  EXPECT_EQ(fields.value("b"), std::nullopt);
  EXPECT_EQ(fields.size(), 4u);
}

TEST(Fields, FindByIdCountAndRemove) {
  Fields fields;
  EXPECT_FALSE(fields.has(FieldId::host));
  EXPECT_EQ(fields.find(FieldId::host), nullptr);
  fields.add("Host", "a");
  fields.add("X", "1");
  fields.add("HOST", "b");

  EXPECT_TRUE(fields.has(FieldId::host));
  EXPECT_EQ(fields.count(FieldId::host), 2u);
  EXPECT_EQ(fields.value(FieldId::host), "a");
  fields.remove(FieldId::host);
  EXPECT_FALSE(fields.has(FieldId::host));
  EXPECT_EQ(text_of(fields), "X=1;");
  fields.remove("x");
  EXPECT_EQ(fields.size(), 0u);
  fields.remove("host");
}

TEST(Fields, CountAfterEveryChange) {
  Fields fields;
  EXPECT_EQ(fields.count(FieldId::via), 0u);
  for (const std::string_view value : {"1", "2", "3"}) fields.add("Via", value);
  fields.add("Host", "a");
  EXPECT_EQ(fields.count(FieldId::via), 3u);
  EXPECT_EQ(fields.count(FieldId::host), 1u);

  Fields moved = std::move(fields);
  fields = Fields();
  EXPECT_EQ(moved.count(FieldId::via), 3u);
  EXPECT_EQ(fields.count(FieldId::via), 0u);

  moved.remove_if([](const Field& field) { return field.value() == "2"; });
  EXPECT_EQ(text_of(moved), "Via=1;Via=3;Host=a;");
  EXPECT_EQ(moved.count(FieldId::via), 2u);
  moved.remove_if([](const Field& field) { return field.value() == "1"; });
  EXPECT_EQ(moved.count(FieldId::via), 1u);
  moved.add("via", "4");
  EXPECT_EQ(moved.count(FieldId::via), 2u);
  moved.clear();
  EXPECT_EQ(moved.count(FieldId::via), 0u);
  moved.add("via", "5");
  EXPECT_EQ(moved.count(FieldId::via), 1u);
}

TEST(Fields, RemoveByNameInAnyCase) {
  Fields fields;
  fields.add("Via", "1");
  fields.add("x-own", "2");
  fields.add("X-Own", "3");
  fields.add("y", "4");
  fields.remove("VIA");
  fields.remove("X-OWN");
  EXPECT_EQ(text_of(fields), "y=4;");
}

TEST(Fields, GrowPastTheInitialCapacity) {
  Fields fields;
  std::string expected;
  std::vector<std::string> names;
  for (int i = 0; i < 500; ++i) names.push_back("n" + std::to_string(i));
  for (const auto& name : names) {
    fields.add(name, "v");
    expected += name + "=v;";
  }
  EXPECT_EQ(text_of(fields), expected);
}

TEST(Fields, CopyOnRequest) {
  Fields fields;
  std::string expected;
  for (int i = 0; i < 100; ++i) {
    std::string name = "name-" + std::to_string(i);
    std::string value(static_cast<std::size_t>(i) * 37, 'v');
    fields.add_copy(name, value);
    expected += name + "=" + value + ";";
    name.assign(name.size(), '?');
    value.assign(value.size(), '?');
  }
  const Fields moved = std::move(fields);
  EXPECT_EQ(text_of(moved), expected);
}

TEST(Fields, FollowMovedBytes) {
  std::string bytes = "Name: value\r\nEmpty:";
  const std::string copy = bytes;
  Fields fields;
  const std::string_view view(bytes);
  fields.add(view.substr(0, 4), view.substr(6, 5));
  fields.add(view.substr(13, 5), view.substr(19, 0));
  fields.add("elsewhere", "stays");

  fields.rebase(bytes.data(), bytes.size(), copy.data());
  bytes.assign(bytes.size(), '?');

  EXPECT_EQ(text_of(fields), "Name=value;Empty=;elsewhere=stays;");
}

TEST(Fields, AreEmptyAfterClear) {
  Fields fields;
  fields.clear();
  fields.add("host", "a");
  fields.clear();
  EXPECT_EQ(fields.size(), 0u);
  EXPECT_FALSE(fields.has(FieldId::host));
  fields.add("via", "b");
  EXPECT_EQ(text_of(fields), "via=b;");
}

}  // namespace
}  // namespace evenkeel
