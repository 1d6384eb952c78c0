// The keys of endpoint pickers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "config/test_environment.h"

namespace evenkeel {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::string with_listeners(const std::string& listeners) {
  return "pools: [{name: a, backends: [h:1]}, {name: b, backends: [h:2]}]\nlisteners: [" +
         listeners + "]\n";
}

TEST(ConfigOfEndpointPickers, NamesAPoolOfTheFile) {
  EXPECT_THAT(
      problems_of(with_listeners("{name: p, endpoint_picker: {pool: elsewhere}}")),
      ElementsAre(HasSubstr("listeners[0].endpoint_picker.pool: there is no pool 'elsewhere'; "
                            "the pools are a, b")));
}

TEST(ConfigOfEndpointPickers, NeedsNoRoutesWhereEachHasAPool) {
  const std::string first = "{name: p, address: ':9002', endpoint_picker: {pool: a}}";
  const std::string second = "{name: q, address: ':9003', endpoint_picker: {pool: b}}";

  EXPECT_THAT(problems_of(with_listeners(first + ", " + second)), IsEmpty());
  EXPECT_THAT(warnings_of(with_listeners(first + ", " + second)), IsEmpty());
  EXPECT_THAT(problems_of(with_listeners(first + ", {name: r, endpoint_picker: {}}")),
              ElementsAre(HasSubstr("routes: missing, and there are 2 pools")));
  EXPECT_THAT(problems_of(with_listeners(first + ", {name: public}")),
              ElementsAre(HasSubstr("routes: missing, and there are 2 pools")));
}

TEST(ConfigOfEndpointPickers, UsesItsPool) {
  const std::string text =
      with_listeners("{name: p, address: ':9002', endpoint_picker: {pool: b}}, {name: public}") +
      "routes: [{pool: a}]\n";
  EXPECT_THAT(warnings_of(text), IsEmpty());
}

TEST(ConfigOfEndpointPickers, TakesCertificatesOfTheirOwnOnlyWhereItServes) {
  EXPECT_THAT(problems_of("pools: [{name: a, backends: [h:1]}]\n"
                          "admin: {tls: {self_signed: true}}\n"),
              ElementsAre(HasSubstr("'tls.self_signed' is for listeners only")));
}

}  // namespace
}  // namespace evenkeel
