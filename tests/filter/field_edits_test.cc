#include "evenkeel/filter/field_edits.h"

#include <gtest/gtest.h>

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

namespace evenkeel {
namespace {

class FieldEdit : public testing::Test {
 protected:
  FieldEdit() {
    request.method = "POST";
    request.authority = "api.test";
    request.path = "/v1/models?key=secret";
    request.info.identity.client = "192.0.2.7";
    request.info.identity.route = "chat";
  }
  /// The fields after the changes.
  std::string edited(const FieldEdits& edits,
                     std::initializer_list<std::pair<std::string_view, std::string_view>> before) {
    Fields fields;
    for (const auto& [name, value] : before) fields.add(name, value);
    const FieldEditor editor(edits);  // the fields view it
    editor.apply(fields, request);
    std::string text;
    for (const Field& field : fields)
      text.append(field.name()).append(": ").append(field.value()).append("\n");
    return text;
  }
  Request request;
};

TEST_F(FieldEdit, RemovesThenSetsThenAdds) {
  EXPECT_EQ(edited({.set = {{"a", "1"}}, .add = {{"b", "2"}}, .remove = {"c"}},
                   {{"A", "x"}, {"b", "y"}, {"C", "z"}, {"a", "w"}}),
            "b: y\na: 1\nb: 2\n");
}

TEST_F(FieldEdit, WritesWhatIsKnownOfTheRequest) {
  EXPECT_EQ(edited({.set = {{"x", "$client/$route/${host}s $method"}}}, {}),
            "x: 192.0.2.7/chat/api.tests POST\n");
}

TEST_F(FieldEdit, ShowsNoSecretOfAQuery) {
  EXPECT_EQ(edited({.set = {{"x", "$path"}}}, {}).find("secret"), std::string::npos);
}

TEST_F(FieldEdit, OnlyRemovesWhereNothingIsKnown) {
  EXPECT_EQ(edited({.set = {{"x-tenant", "$tenant"}}}, {{"x-tenant", "forged"}}), "");
}

TEST_F(FieldEdit, WritesNoControlCharacters) {
  request.authority = "a\r\nx: y";
  EXPECT_EQ(edited({.set = {{"x", " $host "}}}, {}), "x: a??x: y\n");
}

}  // namespace
}  // namespace evenkeel
