// Sessions and tenants as text.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>

#include <string>

#include "cli/sessions_text.h"
#include "cli/tenants_text.h"

namespace evenkeel {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(SessionsText, ShowsBackendsSessionsAndMoves) {
  const auto pools = parse_json(R"([{"pool": "chat", "mode": "hard", "ttl_seconds": 600,
    "max_sessions": 1000, "sessions": 2, "hits_total": 7, "misses_total": 2, "moves_total": 1,
    "evictions_total": 0, "backends": [{"id": "gpu1:8000", "sessions": 2}],
    "newest": [{"session": "00000000000000ff", "backend": "gpu1:8000", "idle_seconds": 65,
                "confirmed": true, "has_state": false},
               {"session": "00000000000000fe", "backend": null, "idle_seconds": 70,
                "confirmed": false, "has_state": false}],
    "moves": [{"session": "00000000000000fd", "from": "gpu1:8000", "to": "gpu\u001b2",
               "age_seconds": 3.5}]}])");

  const std::string lines = fmt::format("{}", fmt::join(sessions_text(*pools), "\n"));

  EXPECT_EQ(
      lines,
      R"(pool chat: 2 sessions of at most 1.00k, hard, kept for 10m 0s; requests: 7 to their backend, 2 new, 1 moved; 0 forgotten for lack of room

BACKEND    SESSIONS
gpu1:8000         2

SESSION           BACKEND      IDLE  NOTE
00000000000000ff  gpu1:8000   1m 5s
00000000000000fe  (gone)     1m 10s  no answer yet

MOVED             FROM       TO     AGO
00000000000000fd  gpu1:8000  gpu?2   3s)");
}

TEST(SessionsText, SaysWhenNoPoolKeepsSome) {
  EXPECT_THAT(sessions_text(*parse_json("[]")),
              ElementsAre("no sessions: pools with `affinity` keep them"));
}

TEST(TenantsText, HasARowForEach) {
  const auto tenants = parse_json(R"([{"name": "acme", "weight": 2, "priority": "batch",
    "running": 4, "waiting": 1, "requests_total": 3, "input_tokens_total": 30,
    "cached_tokens_total": 0, "output_tokens_total": 10, "requests_per_second": 0.05,
    "output_tokens_per_second": null, "tokens_ratio": 0.25}])");

  EXPECT_THAT(tenants_text(*tenants), Contains(HasSubstr("acme")));
  EXPECT_THAT(tenants_text(*tenants)[0], HasSubstr("TENANT  WEIGHT  PRIORITY  RUN  WAIT"));
  EXPECT_THAT(tenants_text(*tenants)[1], HasSubstr("25%"));
  EXPECT_THAT(tenants_text(*parse_json("[]")),
              ElementsAre("no tenants: the file names none (`tenants`)"));
}

}  // namespace
}  // namespace evenkeel
