// Usage records as lines, and their sums.
#include "evenkeel/stats/usage_record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <filesystem>
#include <fstream>
#include <limits>
#include <string>

#include "evenkeel/base/rfc3339.h"
#include "evenkeel/base/rng.h"
#include "evenkeel/json/value.h"
#include "evenkeel/stats/usage_totals.h"
#include "stats/temporary_directory.h"

namespace evenkeel::testing {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::Pair;

UsageRecord record_of(std::string_view id, std::string_view tenant = "acme") {
  UsageRecord record{
      .time = std::chrono::system_clock::time_point(*parse_rfc3339("2026-11-28T23:59:59.250Z")),
      .id = id,
      .source = "evenkeel/test",
      .request_id = "r-1",
      .tenant = tenant,
      .model = "llama",
      .served_model = "llama-70b",
      .pool = "chat",
      .route = "default",
      .backend = "10.0.0.1:8000",
      .status = 200,
      .input_tokens = 1000,
      .output_tokens = 20,
      .cached_tokens = 600,
      .retries = 1,
      .duration = 1234567us};
  record.cost = Amount::parse("0.000336");
  return record;
}

std::string line_of(const UsageRecord& record) {
  UsageBuffer buffer;
  return std::string(format_usage(record, buffer));
}

TEST(Amount, IsRoundedUpToMillionths) {
  EXPECT_EQ(Amount::of_tokens(1, 1).millionths(), 1u);
  EXPECT_EQ(Amount::of_tokens(1'000'000, 600'000).millionths(), 600'000u);
  EXPECT_EQ(Amount().millionths(), 0u);
  EXPECT_EQ(Amount::of_millionths(2'500'000).text(), "2.5");
  EXPECT_EQ(Amount::of_millionths(1).text(), "0.000001");
}

TEST(Amount, InMillionthsStaysAtTheLargestNumber) {
  constexpr std::uint64_t most = std::numeric_limits<std::uint64_t>::max();
  EXPECT_EQ(Amount::of_units(most / 1'000'000).millionths(), most / 1'000'000 * 1'000'000);
  EXPECT_EQ(Amount::of_units(most / 1'000'000 + 1).millionths(), most);
  EXPECT_EQ(Amount::of_tokens(most, 100'000'000'000).millionths(), most);
  EXPECT_EQ(Amount::of_millionths(most).millionths(), most);
}

TEST(Amount, OfTokensIsExact) {
  EXPECT_EQ(Amount::of_tokens(1, 600'000).text(), "0.0000006");
  EXPECT_EQ(Amount::of_tokens(1, 1).text(), "0.000000000001");
  EXPECT_EQ(Amount::of_tokens(3'000'000, 600'000).text(), "1.8");
  EXPECT_EQ(Amount::of_tokens(999'999'999'999, 1'000'000'000'000).text(), "999999999999");
  EXPECT_EQ(Amount::of_tokens(0, 600'000).text(), "0");
  Amount sum;
  for (int i = 0; i < 1000; ++i) sum += Amount::of_tokens(1, 100'000);
  EXPECT_EQ(sum.text(), "0.0001");
}

TEST(Amount, IsReadAsItIsWritten) {
  for (const char* const text : {"0", "12", "0.000000000001", "1.5", "18446744073709551615.25"}) {
    EXPECT_EQ(Amount::parse(text).value_or(Amount()).text(), text);
  }
  EXPECT_EQ(Amount::parse("6e-07")->text(), "0.0000006");
  EXPECT_EQ(Amount::parse("1.25E+2")->text(), "125");
  EXPECT_EQ(Amount::parse("0.0000000000019")->text(), "0.000000000001");
  for (const char* const text : {"", "-1", "x", "1.2.3", "1e999", "99999999999999999999"}) {
    EXPECT_FALSE(Amount::parse(text)) << text;
  }
}

TEST(UsageRecord, IsACloudEventOnALine) {
  EXPECT_EQ(
      line_of(record_of("id-1")),
      R"({"specversion":"1.0","id":"id-1","source":"evenkeel/test","type":"evenkeel.request",)"
      R"("time":"2026-11-28T23:59:59.250Z","subject":"acme","datacontenttype":"application/json",)"
      R"("data":{"request_id":"r-1","tenant":"acme","model":"llama","served_model":"llama-70b",)"
      R"("pool":"chat","route":"default","backend":"10.0.0.1:8000","status":200,)"
      R"("input_tokens":1000,"output_tokens":20,"cached_tokens":600,"estimated":false,)"
      R"("aborted":false,"retries":1,"cost":0.000336,"duration_seconds":1.234}})"
      "\n");
}

TEST(UsageRecord, LeavesOutWhatIsUnknown) {
  const auto event = parse_json(line_of({.id = "id-1", .source = "s", .request_id = "r"}));

  ASSERT_TRUE(event);
  EXPECT_TRUE((*event)["subject"].is_null());
  for (const char* const key : {"tenant", "key", "model", "cached_tokens", "cost"}) {
    EXPECT_TRUE((*event)["data"][key].is_null()) << key;
  }
  EXPECT_EQ((*event)["data"]["input_tokens"].number(), 0);
}

TEST(UsageRecord, IsOneLineOfJsonWhateverItsTexts) {
  std::string hostile = "\"}\n{\"specversion\"";
  for (int i = 0; i < 256; ++i) hostile += std::string(3, static_cast<char>(i));
  UsageRecord record = record_of("id-1", hostile);
  record.model = record.served_model = record.route = record.pool = record.backend = hostile;
  record.source = record.request_id = record.key = hostile;

  const std::string line = line_of(record);

  EXPECT_TRUE(parse_json(line));
  EXPECT_EQ(line.find('\n'), line.size() - 1);
  UsageReader reader;
  EXPECT_EQ(reader.read({line.data(), line.size() - 1}), UsageReader::Line::whole);
  EXPECT_TRUE(reader.record().model.starts_with("\"}\n{"));
}

TEST(UsageReader, ReadsWhatWasWritten) {
  const std::string line = line_of(record_of("id-1"));
  UsageReader reader;

  ASSERT_EQ(reader.read({line.data(), line.size() - 1}), UsageReader::Line::whole);

  EXPECT_EQ(line_of(reader.record()).substr(0, line.size() - 10), line.substr(0, line.size() - 10));
}

TEST(UsageReader, ReadsRecordsThatAnotherProgramHasWritten) {
  UsageReader reader;

  ASSERT_EQ(reader.read(R"({ "data": { "more": {"model": "no", "cost": 9}, "tenant": "a\u0063me",
    "input_tokens": 7, "cost": 5e-1, "estimated": true }, "id": "x", "list": ["id", {"id": "y"}],
    "time": "2026-11-28T01:00:00+02:00", "type": "evenkeel.request", "specversion": "1.0" })"),
            UsageReader::Line::whole);

  const UsageRecord& record = reader.record();
  EXPECT_EQ(record.id, "x");
  EXPECT_EQ(record.tenant, "acme");
  EXPECT_EQ(record.model, "");
  EXPECT_EQ(record.input_tokens, 7u);
  EXPECT_EQ(record.cost->text(), "0.5");
  EXPECT_TRUE(record.estimated);
  EXPECT_EQ(record.time.time_since_epoch(), *parse_rfc3339("2026-11-27T23:00:00Z"));
}

TEST(UsageReader, FindsTheRecordBehindOneThatIsTorn) {
  const std::string line = line_of(record_of("id-2"));
  const std::string torn = line_of(record_of("id-1")).substr(0, 200);
  const std::string glued = torn + line;
  UsageReader reader;

  EXPECT_EQ(reader.read(torn), UsageReader::Line::useless);
  EXPECT_EQ(reader.read(glued), UsageReader::Line::glued);
  EXPECT_EQ(reader.record().id, "id-2");
  EXPECT_EQ(reader.read(R"({"specversion":"1.0","id":"x","type":"other.event"})"),
            UsageReader::Line::useless);
}

TEST(UsageTotals, SumsEachRecordOnce) {
  UsageTotals totals({.by = {UsageKey::tenant, UsageKey::day}, .since = {}, .until = {}});
  UsageRecord estimated = record_of("id-3", "beta");
  estimated.estimated = true;
  estimated.cost.reset();

  for (const std::string& line : {line_of(record_of("id-1")), line_of(record_of("id-2")),
                                  line_of(record_of("id-1")), line_of(estimated)}) {
    totals.add_line({line.data(), line.size() - 1});
  }

  EXPECT_EQ(totals.duplicates(), 1u);
  EXPECT_EQ(totals.total().requests, 3u);
  ASSERT_EQ(totals.groups().size(), 2u);
  const UsageSum& acme = totals.groups().at({"acme", "2026-11-28"});
  EXPECT_EQ(acme.requests, 2u);
  EXPECT_EQ(acme.input_tokens, 2000u);
  EXPECT_EQ(acme.cached_tokens, 1200u);
  EXPECT_EQ(acme.output_tokens, 40u);
  EXPECT_EQ(acme.cost.text(), "0.000672");
  const UsageSum& beta = totals.groups().at({"beta", "2026-11-28"});
  EXPECT_EQ(beta.estimated, 1u);
  EXPECT_EQ(beta.unpriced, 1u);
}

TEST(UsageTotals, SelectsByTime) {
  const std::string line = line_of(record_of("id-1"));
  const auto counted = [&](const char* since, const char* until) {
    UsageTotals totals({.by = {}, .since = parse_rfc3339(since), .until = parse_rfc3339(until)});
    totals.add_line({line.data(), line.size() - 1});
    return totals.total().requests;
  };

  EXPECT_EQ(counted("2026-11-28T00:00:00Z", "2026-11-29T00:00:00Z"), 1u);
  EXPECT_EQ(counted("2026-11-28T23:59:59.250Z", "2026-11-29T00:00:00Z"), 1u);
  EXPECT_EQ(counted("2026-11-28T00:00:00Z", "2026-11-28T23:59:59.250Z"), 0u);
  EXPECT_EQ(counted("2026-11-29T00:00:00Z", "2026-11-30T00:00:00Z"), 0u);
}

TEST(UsageTotals, ReadsPlainAndCompressedFiles) {
  const TemporaryDirectory folder;
  const std::string lines = line_of(record_of("id-1")) + "\n" + line_of(record_of("id-2"));
  std::ofstream(folder / "plain") << lines << line_of(record_of("id-3")).substr(0, 100);
  const gzFile file = gzopen((folder / "packed.gz").c_str(), "wb");
  gzwrite(file, lines.data(), static_cast<unsigned>(lines.size()));
  gzclose(file);
  UsageTotals totals({});

  EXPECT_TRUE(totals.add_file(folder / "plain"));
  EXPECT_TRUE(totals.add_file(folder / "packed.gz"));

  EXPECT_EQ(totals.total().requests, 2u);
  EXPECT_EQ(totals.duplicates(), 2u);
  EXPECT_EQ(totals.useless_lines(), 1u);
  EXPECT_FALSE(totals.add_file(folder / "none"));
}

TEST(UsageTotals, CountsWhatIsInAFileThatIsCutOff) {
  const TemporaryDirectory folder;
  std::string lines;
  for (int i = 0; i < 2000; ++i)
    lines += line_of(record_of(std::to_string(mix(static_cast<std::uint64_t>(i) + 1))));
  const gzFile file = gzopen((folder / "packed.gz").c_str(), "wb");
  gzwrite(file, lines.data(), static_cast<unsigned>(lines.size()));
  gzclose(file);
  std::filesystem::resize_file(folder / "packed.gz",
                               std::filesystem::file_size(folder / "packed.gz") / 2);
  UsageTotals totals({});

  const auto read = totals.add_file(folder / "packed.gz");

  ASSERT_FALSE(read);
  EXPECT_NE(read.error().detail.find("ends within compressed data"), std::string::npos);
  EXPECT_GT(totals.total().requests, 100u);
}

TEST(UsageTotals, PassesOverALineWithoutAnEnd) {
  const TemporaryDirectory folder;
  std::ofstream(folder / "usage") << line_of(record_of("id-1")) << std::string(3'000'000, '{')
                                  << "\n"
                                  << line_of(record_of("id-2"));
  UsageTotals totals({});

  EXPECT_TRUE(totals.add_file(folder / "usage"));

  EXPECT_EQ(totals.total().requests, 2u);
  EXPECT_EQ(totals.useless_lines(), 1u);
}

TEST(IdSet, HasEachIdOnce) {
  IdSet ids;
  for (int round = 0; round < 2; ++round) {
    for (int i = 0; i < 10'000; ++i) EXPECT_EQ(ids.add(std::to_string(i)), round == 0);
  }
  EXPECT_EQ(ids.size(), 10'000u);
}

}  // namespace
}  // namespace evenkeel::testing
