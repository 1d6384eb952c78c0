// The keys of mirrors.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "config/test_environment.h"

namespace evenkeel {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::string mirrored(const std::string& mirror, const std::string& target = "pool: a") {
  return "pools: [{name: a, backends: [h:1]}, {name: canary, backends: [h:2]}]\n"
         "routes: [{" +
         target + ", mirror: " + mirror + "}]\n";
}

TEST(ConfigOfMirrors, AreANameOrSayTheirShare) {
  const auto mirror = [](const std::string& text) {
    const LoadResult loaded = read(mirrored(text));
    EXPECT_THAT(lines_of(loaded.problems), IsEmpty());
    for (const bool with_defaults : {false, true})
      EXPECT_EQ(read(print_config(loaded.config, with_defaults)).config, loaded.config)
          << print_config(loaded.config, with_defaults);
    return loaded.config.routes.at(0).mirror;
  };
  EXPECT_EQ(mirror("canary"), (MirrorConfig{"canary", 1}));
  EXPECT_EQ(mirror("{pool: canary}"), (MirrorConfig{"canary", 1}));
  EXPECT_EQ(mirror("{pool: canary, share: 5%}"), (MirrorConfig{"canary", 0.05}));
}

TEST(ConfigOfMirrors, NameAPoolOfTheFile) {
  EXPECT_THAT(problems_of(mirrored("canari")),
              testing::Contains(HasSubstr(
                  "routes[0].mirror: there is no pool 'canari'; did you mean 'canary'?")));
  EXPECT_THAT(problems_of(mirrored("{share: 5%}")), ElementsAre(HasSubstr("pool")));
  EXPECT_THAT(problems_of(mirrored("{pool: canary, share: 101%}")),
              ElementsAre(HasSubstr("share")));
}

TEST(ConfigOfMirrors, AreOtherPoolsThanTheRoutes) {
  EXPECT_THAT(warnings_of(mirrored("canary")), IsEmpty());
  EXPECT_THAT(warnings_of(mirrored("canary", "split: {a: 95, canary: 5}")),
              ElementsAre(HasSubstr("the pool 'canary' gets requests twice")));
}

TEST(ConfigOfMirrors, AreOfRoutesToPools) {
  EXPECT_THAT(problems_of(mirrored("canary", "respond: {status: 200}")),
              testing::Contains(HasSubstr("no pool gets the requests of a route with 'respond'")));
}

}  // namespace
}  // namespace evenkeel
