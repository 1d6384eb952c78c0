#include "evenkeel/tenancy/key_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

namespace evenkeel {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::string hash_text(char digit) { return std::string(64, digit); }
std::string line_of(char digit, std::string_view rest) {
  return "sha256:" + hash_text(digit) + " " + std::string(rest) + "\n";
}
KeyHash hash_of_digit(char digit) { return *key_hash_of(hash_text(digit)); }

const std::vector<TenantConfig> two_tenants = {{.name = "acme", .keys_sha256 = {hash_text('a')}},
                                               {.name = "beta"}};

/// The only problem of a text.
FileProblem problem_of(std::string_view text) {
  const KeyFileText read = read_keys(text);
  EXPECT_EQ(read.problems.size(), 1u) << text;
  return read.problems.empty() ? FileProblem{} : read.problems.front();
}

TEST(ReadKeys, TakesWholeLinesCommentsAndBlankOnes) {
  const std::string text =
      "# keys of the team\n\n" + line_of('1', "tenant=acme") + "  \t\r\n" +
      line_of('2',
              " tenant=beta\tname=alice models=llama-*,qwen-7b expires=2027-01-31T00:00:00Z # x");

  const KeyFileText read = read_keys(text);

  ASSERT_THAT(read.problems, IsEmpty());
  ASSERT_EQ(read.keys.size(), 2u);
  EXPECT_EQ(read.keys[0].hash, hash_of_digit('1'));
  EXPECT_EQ(read.keys[0].tenant, "acme");
  EXPECT_FALSE(read.keys[0].expires);
  EXPECT_EQ(read.keys[1].number, 5);
  EXPECT_EQ(read.keys[1].name, "alice");
  EXPECT_THAT(read.keys[1].models, ElementsAre("llama-*", "qwen-7b"));
  EXPECT_EQ(read.keys[1].expires->time_since_epoch().count(), 1'801'353'600);
}

TEST(ReadKeys, ReadsWhatItWrites) {
  const KeyLine key{.hash = hash_of_digit('7'),
                    .tenant = "acme",
                    .name = "alice",
                    .models = {"llama-*", "m"},
                    .expires = std::chrono::sys_seconds(std::chrono::seconds(1'801'353'600))};

  const KeyFileText read = read_keys(key_line_text(key));

  ASSERT_EQ(read.keys.size(), 1u);
  EXPECT_EQ(key_line_text(read.keys[0]), key_line_text(key));
}

TEST(ReadKeys, NamesThePlaceOfEachMistakeAndItsCure) {
  const std::string good = line_of('1', "tenant=acme");
  EXPECT_EQ(problem_of(good + "sha256:abc tenant=acme").line, 2);
  EXPECT_EQ(problem_of(good + "sha256:abc tenant=acme").column, 8);
  EXPECT_THAT(problem_of("sha256:abc tenant=acme").message, HasSubstr("3 characters"));
  EXPECT_THAT(problem_of(line_of('1', "")).message, HasSubstr("no tenant"));
  EXPECT_EQ(problem_of(line_of('1', "tenant=acme nmae=x")).help, "did you mean 'name='?");
  EXPECT_EQ(problem_of(line_of('1', "tenant=acme nmae=x")).column, 85);
  EXPECT_THAT(problem_of(line_of('1', "tenant=a tenant=b")).message, HasSubstr("twice"));
  EXPECT_THAT(problem_of(line_of('1', "tenant=")).message, HasSubstr("no value"));
  EXPECT_THAT(problem_of(line_of('1', "tenant")).message, HasSubstr("no value"));
  EXPECT_THAT(problem_of(line_of('1', "tenant=a models=m,,n")).message,
              HasSubstr("without a name"));
  EXPECT_THAT(problem_of(line_of('1', "tenant=a expires=soon")).message, HasSubstr("RFC 3339"));
  EXPECT_THAT(problem_of(line_of('1', "tenant=a name=" + std::string(65, 'n'))).message,
              HasSubstr("longer"));
}

TEST(ReadKeys, SurvivesHostileLinesAndRepeatsNoneOfThem) {
  using namespace std::string_view_literals;
  for (const std::string_view text :
       {"ek_secret-key tenant=acme"sv, "sha256:ek_secret-key"sv, "\x00\x01"sv, "\xff\xfe"sv,
        "sha256:"sv, "=sha256:"sv, "tenant=acme ek_secret-key"sv}) {
    const FileProblem problem = problem_of(text);
    EXPECT_EQ(problem.line, 1);
    EXPECT_THAT(problem.message + problem.help, testing::Not(HasSubstr("secret")));
  }
  EXPECT_THAT(problem_of(std::string(100'000, 'x')).message, HasSubstr("longer"));
  EXPECT_EQ(read_keys(std::string(100'000, '\n') + std::string(1000, '\xff')).problems.size(), 1u);
  std::string many;
  for (int i = 0; i < 1000; ++i) many += "wrong\n";
  EXPECT_EQ(read_keys(many).problems.size(), 100u);
}

TEST(KeyTable, FindsTheKeysOfTheConfigurationAndOfTheFile) {
  const auto built =
      KeyTable::build(two_tenants, line_of('B', "tenant=beta name=bob models=llama-*"));

  ASSERT_THAT(built.problems, IsEmpty());
  ASSERT_NE(built.table, nullptr);
  EXPECT_EQ(built.table->size(), 2u);
  const KeyTable::Key* const own = built.table->find(hash_of_digit('a'));
  const KeyTable::Key* const added = built.table->find(hash_of_digit('b'));
  ASSERT_NE(own, nullptr);
  ASSERT_NE(added, nullptr);
  EXPECT_EQ(own->tenant, 0u);
  EXPECT_EQ(built.table->tenant_names()[added->tenant], "beta");
  EXPECT_EQ(added->id, "bbbbbbbb");
  EXPECT_EQ(added->name, "bob");
  EXPECT_THAT(added->models, ElementsAre("llama-*"));
  EXPECT_EQ(built.table->find(hash_of_digit('c')), nullptr);
}

TEST(KeyTable, RefusesAFileWithAKeyOfAnUnknownTenant) {
  const auto built = KeyTable::build(two_tenants, line_of('b', "name=x tenant=bta"));

  EXPECT_EQ(built.table, nullptr);
  ASSERT_EQ(built.problems.size(), 1u);
  EXPECT_EQ(built.problems[0].line, 1);
  EXPECT_EQ(built.problems[0].column, 87);
  EXPECT_EQ(built.problems[0].help, "did you mean 'beta'?");
}

TEST(KeyTable, RefusesAKeyThatIsGivenTwice) {
  const std::string line = line_of('b', "tenant=beta");
  const auto twice = KeyTable::build(two_tenants, "\n" + line + line + line);
  const auto in_both = KeyTable::build(two_tenants, line_of('a', "tenant=beta"));

  ASSERT_EQ(twice.problems.size(), 2u);
  EXPECT_EQ(twice.problems[0].line, 3);
  EXPECT_THAT(twice.problems[0].message, HasSubstr("line 2"));
  EXPECT_THAT(twice.problems[1].message, HasSubstr("line 2"));
  ASSERT_EQ(in_both.problems.size(), 1u);
  EXPECT_THAT(in_both.problems[0].message, HasSubstr("keys_sha256 of tenant 'acme'"));
}

TEST(KeyTable, KnowsWhenAKeyHasExpired) {
  const auto built =
      KeyTable::build(two_tenants, line_of('b', "tenant=beta expires=2027-01-31T00:00:00Z"));
  ASSERT_NE(built.table, nullptr);
  const KeyTable::Key& key = *built.table->find(hash_of_digit('b'));

  EXPECT_FALSE(key.has_expired(*key.expires - std::chrono::seconds(1)));
  EXPECT_TRUE(key.has_expired(*key.expires));
  EXPECT_FALSE(built.table->find(hash_of_digit('a'))->has_expired(*key.expires));
}

TEST(KeyTable, HoldsAHundredThousandKeys) {
  std::string text;
  for (unsigned i = 0; i < 100'000; ++i) {
    KeyHash hash{};
    for (unsigned byte = 0; byte < 4; ++byte)
      hash[byte] = static_cast<std::uint8_t>(i * 2'654'435'761U >> (8 * byte));
    text += "sha256:" + hexadecimal(hash) + " tenant=beta name=client\n";
  }

  const auto built = KeyTable::build(two_tenants, text);

  ASSERT_NE(built.table, nullptr);
  EXPECT_EQ(built.table->size(), 100'001u);
  EXPECT_NE(built.table->find(hash_of_digit('a')), nullptr);
}

}  // namespace
}  // namespace evenkeel
