#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/test_environment.h"

namespace evenkeel {
namespace {

using testing::Contains;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

const std::string right_pool = "pools: [{name: llama, backends: [127.0.0.1:8000]}]\n";

TEST(Yaml, RefusesAnEmptyFile) {
  EXPECT_THAT(problems_of(""), ElementsAre(StartsWith("1:1 : the file is empty; the smallest")));
  EXPECT_THAT(problems_of("# nothing\n\n"), ElementsAre(HasSubstr("the file is empty")));
  EXPECT_THAT(problems_of("~\n"), ElementsAre(HasSubstr("the file is empty")));
  EXPECT_THAT(problems_of("---\n"), ElementsAre(HasSubstr("the file is empty")));
}

TEST(Yaml, RefusesANonMapping) {
  EXPECT_THAT(problems_of("- a\n- b\n"), ElementsAre(HasSubstr("expected a mapping of keys")));
  EXPECT_THAT(problems_of("hello\n"), ElementsAre(HasSubstr("found 'hello'")));
}

TEST(Yaml, RefusesASecondDocument) {
  EXPECT_THAT(problems_of(right_pool + "---\nworkers: 1\n"),
              ElementsAre(StartsWith("2:1 : a second document")));
  EXPECT_TRUE(read("---\n" + right_pool).ok());
}

TEST(Yaml, RefusesAliasesWhereTheyStand) {
  EXPECT_THAT(problems_of("admin: &a {address: 127.0.0.1:1}\nshutdown: *a\n" + right_pool),
              ElementsAre("2:11 shutdown: aliases are not supported; write the value out"));
  EXPECT_THAT(problems_of("workers: *nowhere\n" + right_pool),
              ElementsAre("1:10 workers: aliases are not supported; write the value out"));
}

TEST(Yaml, RefusesUnusedAnchors) {
  EXPECT_THAT(problems_of("workers: &n 3\n" + right_pool),
              ElementsAre("1:10 : anchors are not supported"));
}

TEST(Yaml, RefusesMergeKeys) {
  EXPECT_THAT(problems_of("admin: &a {address: 127.0.0.1:1}\nshutdown: {<<: *a}\n" + right_pool),
              ElementsAre(StartsWith("2:12 shutdown.<<: merge keys are not supported")));
}

TEST(Yaml, RefusesTags) {
  EXPECT_THAT(problems_of("workers: !!int 3\n" + right_pool),
              ElementsAre(HasSubstr("workers: tags such as")));
}

TEST(Yaml, RefusesNonScalarKeys) {
  EXPECT_THAT(problems_of("? [a, b]\n: 1\n" + right_pool),
              ElementsAre(HasSubstr("a key must be a word")));
  EXPECT_THAT(problems_of("? {a: b}\n: 1\n" + right_pool),
              ElementsAre(HasSubstr("a key must be a word")));
}

TEST(Yaml, ContinuesAfterAnInvalidScalar) {
  EXPECT_THAT(problems_of("workers: @four\naccess_log: {path: stdout, formt: json}\n" + right_pool),
              ElementsAre(StartsWith("1:10 workers: not YAML: a text cannot start"),
                          StartsWith("2:28 access_log.formt: unknown key")));
}

TEST(Yaml, ReportsProblemsBeforeASyntaxError) {
  const auto problems = problems_of("wrkers: 1\npools:\n  - name: a\n   backends: [127.0.0.1:1]\n");

  EXPECT_THAT(problems, ElementsAre("1:1 wrkers: unknown key; did you mean 'workers'?",
                                    StartsWith("4:4 : not YAML: this does not continue")));
}

TEST(Yaml, ExplainsAnExtraColon) {
  EXPECT_THAT(problems_of("workers: two: three\n" + right_pool),
              ElementsAre(StartsWith("1:13 workers: not YAML: a ':' where no key can be")));
}

TEST(Yaml, FindsTheColonWithoutSpaceInTheLineAbove) {
  EXPECT_THAT(problems_of("pools:\n  - name:a\n\n    backends: [127.0.0.1:1]\n"),
              ElementsAre("2:10 pools[0]: not YAML: no space behind 'name:'; write 'name: a'"));
  EXPECT_THAT(problems_of("limits:\n  memory:7\n  held_bodies: 1MiB\n" + right_pool),
              ElementsAre("2:10 limits: not YAML: no space behind 'memory:'; write 'memory: 7'"));
  EXPECT_THAT(problems_of("pools:\n- name: a\n  backends:\n  - localhost:1\n    weight: 2\n"),
              ElementsAre(HasSubstr("a ':' where no key can be")));
}

TEST(Yaml, ExplainsATab) {
  EXPECT_THAT(problems_of("admin:\n\taddress: 127.0.0.1:1\n" + right_pool),
              ElementsAre(HasSubstr("a tab in the indentation")));
}

TEST(Yaml, PointsToTheUnclosedBracket) {
  EXPECT_THAT(problems_of("workers: 1\npools: [{name: a, backends: [127.0.0.1:1]\n"),
              ElementsAre(StartsWith("2:9 : this '{' has no '}'")));
}

TEST(Yaml, PointsToTheUnclosedQuote) {
  EXPECT_THAT(problems_of("workers: 1\naccess_log: {path: \"stdout}\n" + right_pool),
              ElementsAre(StartsWith("2:20 : a quoted text that never ends")));
  EXPECT_THAT(problems_of("workers: 1\naccess_log:\n  path: \"stdout\n"),
              ElementsAre(StartsWith("3:9 : a quoted text that never ends")));
}

TEST(Yaml, ExplainsAVariableWithoutQuotesInBrackets) {
  EXPECT_THAT(problems_of("pools: [{name: a, backends: [http://${X}:1]}]\n"),
              ElementsAre(HasSubstr("${...} without quotes inside [ ] or { }")));
}

TEST(Yaml, RefusesInvalidUtf8AndControls) {
  using namespace std::string_literals;
  EXPECT_THAT(problems_of("workers: 1\nadmin: \x04\n"s + right_pool),
              ElementsAre("2:8 : byte 0x04 is not text in UTF-8"));
  EXPECT_THAT(problems_of("workers: \0\n"s), ElementsAre(HasSubstr("byte 0x00")));
  EXPECT_THAT(problems_of("workers: \xff\xfe\n"), ElementsAre(HasSubstr("byte 0xff")));
  EXPECT_THAT(problems_of("workers: \xc3"), ElementsAre(HasSubstr("byte 0xc3")));
}

TEST(Yaml, SurvivesDeepNesting) {
  for (const char* open : {"[", "{a: ", "- ", "? "}) {
    std::string text = "pools: \n  ";
    for (int i = 0; i < 20'000; ++i) text += open;

    EXPECT_THAT(problems_of(text), ElementsAre(HasSubstr("nested more than 64 levels deep")))
        << open;
  }
}

TEST(Yaml, FindsDeepNestingBehindAnything) {
  for (const char* before : {"--- ", "pools: !", "pools: !x ", "pools: &a ", "pools: - ",
                             "x: |\n  \"\npools: ", "x: 'y'\npools: ", "? a\n: "}) {
    EXPECT_THAT(problems_of(before + std::string(1'000'000, '[')),
                Contains(HasSubstr("nested more than 64 levels deep")))
        << before;
  }
}

TEST(Yaml, CountsNoBracketsOfTexts) {
  std::string text = right_pool;
  for (int i = 0; i < 100; ++i) {
    text += "# it's [ {\n";
    text += "x" + std::to_string(i) + ": [\"[\\\" {\", 'it''s [', a]  # [\n";
    text += "y" + std::to_string(i) + ": ^\\[ {\n";
  }

  EXPECT_THAT(problems_of(text), Each(Not(HasSubstr("levels deep"))));
}

TEST(Yaml, ReadsOnBehindBracketsInATextOfSeveralLines) {
  const std::string text =
      right_pool + "description: |\n  " + std::string(65, '[') + "\nworkers: 0\n";

  EXPECT_THAT(problems_of(text), Contains(HasSubstr("workers: 0 is out of range")));
  EXPECT_THAT(problems_of(text), Each(Not(HasSubstr("levels deep"))));
}

TEST(Yaml, RefusesMoreValuesThanAnyFileHas) {
  const auto repeated = [](const char* item) {
    std::string text;
    for (int i = 0; i < 510'000; ++i) text += item;
    return text;
  };

  EXPECT_THAT(problems_of("pools: [" + repeated("1,") + "1]\n"),
              ElementsAre("1:1000010 : more than 500,000 keys and values"));
  EXPECT_THAT(problems_of("{pools: [" + repeated("[],") + "[]]}\n"),
              ElementsAre(HasSubstr("more than 500,000 keys and values")));
  for (const char* item : {":\t", "a:\n", "? "}) {
    EXPECT_THAT(problems_of("[" + repeated(item) + "]"),
                ElementsAre(HasSubstr("more than 500,000 keys and values")))
        << item;
  }
  EXPECT_THAT(problems_of("pools:\n" + repeated("- 1\n")),
              ElementsAre(HasSubstr("more than 500,000 keys and values")));
  EXPECT_THAT(problems_of(repeated("\n\n")), ElementsAre(HasSubstr("more than 1000000 lines")));
}

TEST(Yaml, ListsTheFirstOfManyProblemsAndTheirNumber) {
  std::string text = right_pool;
  for (int i = 0; i < 5'000; ++i) text += "wrong" + std::to_string(i) + ": 1\n";

  const auto problems = problems_of(text);

  ASSERT_EQ(problems.size(), 101u);
  EXPECT_THAT(problems[99], StartsWith("101:1 wrong99: "));
  EXPECT_THAT(problems[100], HasSubstr("and 4900 more"));
}

TEST(Yaml, RefusesAnOversizedFile) {
  EXPECT_THAT(problems_of(std::string(17UL * 1024 * 1024, '#')),
              ElementsAre(HasSubstr("larger than 16 MiB")));
}

}  // namespace
}  // namespace evenkeel
