#include "cli/completion.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/manual.h"
#include "cli/verb_list.h"
#include "cli/verbs.h"

namespace evenkeel {
namespace {

// The program as `run_command_line` has it.
class ProgramTree : public testing::Test {
 protected:
  ProgramTree() { add_verbs(app_, invocation_); }

  Invocation invocation_{.version = "1.2.3"};
  CLI::App app_{"A load balancer.", "evenkeel"};
};

TEST_F(ProgramTree, HasEveryVerbOnceAndWithoutHiddenOnes) {
  std::vector<std::string> words;
  for (const ListedVerb& verb : listed_verbs(app_)) words.push_back(verb.words);
  EXPECT_THAT(words, testing::IsSupersetOf({"", "run", "ctl", "ctl drain", "completion"}));
  EXPECT_THAT(words, testing::Not(testing::Contains("manual")));
}

TEST_F(ProgramTree, SaysWhatAnOptionTakes) {
  const CLI::App& top = *app_.get_subcommand("top");
  EXPECT_FALSE(value_of(*top.get_option("--json")).taken);
  EXPECT_TRUE(value_of(*top.get_option("--config")).is_file);
  EXPECT_EQ(value_of(*top.get_option("--admin")).placeholder, "HOST:PORT");
  EXPECT_THAT(value_of(*top.get_option("--sort")).words, testing::Contains("ttft"));
}

TEST_F(ProgramTree, IsWholeInTheScriptOfEachShell) {
  const std::string bash = bash_completion(app_);
  const std::string zsh = zsh_completion(app_);
  const std::string fish = fish_completion(app_);
  for (const ListedVerb& verb : listed_verbs(app_)) {
    const std::string at = "-n '__evenkeel_at " + verb.words + "'";
    for (const CLI::App* below : verbs_below(*verb.app)) {
      EXPECT_THAT(zsh, testing::HasSubstr("'" + below->get_name() + ":"));
      EXPECT_THAT(fish, testing::HasSubstr(at + " -a " + below->get_name() + " "));
    }
    const std::string words_of_bash = "'" + verb.words + "') words='";
    const std::size_t begin = bash.find(words_of_bash);
    ASSERT_NE(begin, std::string::npos) << verb.words;
    const std::string words = bash.substr(begin, bash.find('\n', begin) - begin) + " ";
    for (const CLI::Option* option : named_options(verb)) {
      for (const std::string& name : spellings(*option)) {
        EXPECT_THAT(words, testing::ContainsRegex("[ ']" + name + "[ ']")) << verb.words;
        EXPECT_THAT(zsh, testing::HasSubstr(name)) << verb.words;
      }
      for (const std::string& name : option->get_lnames())
        EXPECT_THAT(fish, testing::ContainsRegex(at + "( -s .)? -l " + name + " ")) << verb.words;
    }
  }
}

TEST_F(ProgramTree, IsWholeInTheManual) {
  const ManualEdition edition{"1.2.3", "2026-01-31"};
  const std::string pages = program_manual(app_, edition) + ctl_manual(app_, edition);
  EXPECT_THAT(pages, testing::HasSubstr(".TH EVENKEEL 1 \"2026-01-31\" \"evenkeel 1.2.3\""));
  for (const ListedVerb& verb : listed_verbs(app_)) {
    if (verb.words.empty()) continue;
    EXPECT_THAT(pages, testing::HasSubstr(".SS \"evenkeel " + verb.words)) << verb.words;
    for (const CLI::Option* option : named_options(verb)) {
      for (std::string name : option->get_lnames()) {
        for (std::size_t at = 0; (at = name.find('-', at)) != std::string::npos; at += 2)
          name.insert(at, "\\");
        EXPECT_THAT(pages, testing::HasSubstr("\\fB\\-\\-" + name + "\\fR")) << verb.words;
      }
    }
  }
}

TEST(ConfigManual, TurnsKeysHeadingsAndCodeIntoRoff) {
  const std::string page = config_manual(
      "# Configuration\n\nUses `a-b`, see [the rest](rest.md).\n\n```yaml\n.key: '1'\n```\n\n## "
      "pools\n\n"
      "| key | value | default | meaning |\n|---|---|---|---|\n| `name` | text: a \\| b | `x` | "
      "Its "
      "`name`. |\n",
      {"1.2.3", "2026-01-31"});
  EXPECT_THAT(page, testing::HasSubstr("Uses \\fBa\\-b\\fR, see the rest.\n"));
  EXPECT_THAT(page, testing::HasSubstr(".nf\n\\&.key: '1'\n.fi\n"));
  EXPECT_THAT(page, testing::HasSubstr(".SH \"POOLS\"\n"));
  EXPECT_THAT(page, testing::HasSubstr(".TP\n\\fBname\\fR (text: a | b; default \\fBx\\fR)\nIts "
                                       "\\fBname\\fR.\n"));
}

}  // namespace
}  // namespace evenkeel
