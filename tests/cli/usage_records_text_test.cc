// What `evenkeel usage` prints.
#include <gmock/gmock.h>

#include <string>

#include "cli/usage_text.h"
#include "evenkeel/base/rfc3339.h"
#include "evenkeel/json/value.h"

namespace evenkeel {
namespace {

using namespace std::chrono_literals;

void add(UsageTotals& totals, const std::string& id, const std::string& tenant,
         const std::string& more) {
  totals.add_line(R"({"specversion":"1.0","id":")" + id + R"(","type":"evenkeel.request",)" +
                  R"("time":"2026-11-28T10:00:00Z","data":{"tenant":")" + tenant + "\"," + more +
                  "}}");
}

UsageTotals totals_by(std::vector<UsageKey> by) {
  UsageTotals totals({.by = std::move(by), .since = {}, .until = {}});
  add(totals, "1", "acme", R"("input_tokens":10,"output_tokens":5,"cost":0.25)");
  add(totals, "2", "acme",
      R"("input_tokens":1,"cached_tokens":1,"estimated":true,"cost":0.000001)");
  add(totals, "3", "", R"("input_tokens":2,"output_tokens":3)");
  return totals;
}

TEST(UsageText, IsATableWithALineForAll) {
  EXPECT_EQ(usage_table(totals_by({UsageKey::tenant})),
            "TENANT  REQUESTS  INPUT  CACHED  OUTPUT      COST  ESTIMATED  UNPRICED\n"
            "-              1      2       0       3         -        0 %         1\n"
            "acme           2     11       1       5  0.250001       50 %         0\n"
            "all            3     13       1       8  0.250001     33.3 %         1\n");
}

TEST(UsageText, IsOneLineWithoutGroups) {
  EXPECT_EQ(usage_table(totals_by({})),
            "REQUESTS  INPUT  CACHED  OUTPUT      COST  ESTIMATED  UNPRICED\n"
            "       3     13       1       8  0.250001     33.3 %         1\n");
}

TEST(UsageText, IsJsonWithExactCosts) {
  const auto document = parse_json(usage_json(totals_by({UsageKey::tenant, UsageKey::day})));

  ASSERT_TRUE(document);
  const JsonValue& rows = (*document)["rows"];
  ASSERT_EQ(rows.items().size(), 2u);
  EXPECT_TRUE(rows.items()[0]["tenant"].is_null());
  EXPECT_TRUE(rows.items()[0]["cost"].is_null());
  EXPECT_EQ(rows.items()[1]["tenant"].text(), "acme");
  EXPECT_EQ(rows.items()[1]["day"].text(), "2026-11-28");
  EXPECT_EQ(rows.items()[1]["cost"].number_text(), "0.250001");
  EXPECT_EQ(rows.items()[1]["estimated_ratio"].number(), 0.5);
  EXPECT_EQ((*document)["total"]["unpriced_requests"].number(), 1);
}

TEST(UsageTime, IsADateATimeOrHowLongAgo) {
  const Duration now = *parse_rfc3339("2026-11-28T12:00:00Z");

  EXPECT_EQ(parse_usage_time("2026-11-27", now), now - 36h);
  EXPECT_EQ(parse_usage_time("2026-11-28T13:00:00+02:00", now), now - 1h);
  EXPECT_EQ(parse_usage_time("7d", now), now - 168h);
  EXPECT_EQ(parse_usage_time("12h", now), now - 12h);
  for (const char* const bad : {"", "d", "-1d", "soon", "2026-13-01", "999999999999d"}) {
    EXPECT_EQ(parse_usage_time(bad, now), std::nullopt) << bad;
  }
}

}  // namespace
}  // namespace evenkeel
