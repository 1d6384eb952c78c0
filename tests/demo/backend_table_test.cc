#include "demo/backend_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace evenkeel {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

constexpr const char* backends =
    R"([{"id":"127.0.0.1:4001","pool":"demo","labels":{"gpu":"H100"},"weight":1,"state":"up",)"
    R"("since":null,"in_flight":7,"waiting":0,"picks_total":30,"errors_total":0},)"
    R"({"id":"127.0.0.1:400","pool":"demo","labels":{},"state":"down","in_flight":0,)"
    R"("picks_total":10,"errors_total":3}])";

std::vector<BackendRow> two_rows() {
  return {{.id = "127.0.0.1:4001", .gpu = "H100"}, {.id = "127.0.0.1:400", .gpu = "A100"}};
}

TEST(BackendRows, TakeTheNumbersOfTheirBackend) {
  auto rows = two_rows();

  update_rows(rows, backends);

  EXPECT_EQ(rows[0].state, "up");
  EXPECT_EQ(rows[0].in_flight, 7u);
  EXPECT_EQ(rows[0].picks, 30u);
  EXPECT_EQ(rows[1].state, "down");
  EXPECT_EQ(rows[1].in_flight, 0u);
  EXPECT_EQ(rows[1].picks, 10u);
}

TEST(BackendRows, AreUnchangedWithoutABalancerResponse) {
  auto rows = two_rows();
  update_rows(rows, backends);

  update_rows(rows, "[]");
  update_rows(rows, "");

  EXPECT_EQ(rows[0].picks, 30u);
}

TEST(DemoTable, ShowsSharesAndTheLoad) {
  auto rows = two_rows();
  update_rows(rows, backends);
  LoadReport total;
  total.elapsed = seconds(12);
  total.succeeded = 40;
  total.failed = 2;
  LoadReport window;
  window.succeeded = 20;
  window.output_tokens = 1000;
  window.ttft.record(milliseconds(45));
  window.backends["127.0.0.1:4001"].ttft.record(milliseconds(45));

  const std::string table = render_table(rows, total, window, 2.0, 7);
  const std::string line = render_line(rows, total, window, 2.0, 7);

  EXPECT_THAT(table, ContainsRegex("127.0.0.1:4001 +H100 +up +7 +30 +75.0% +#+ +45.0 ms\n"));
  EXPECT_THAT(table, ContainsRegex("127.0.0.1:400 +A100 +down +0 +10 +25.0% +#+ +-\n"));
  EXPECT_THAT(table, HasSubstr("12 s  10.0 req/s  500 tok/s  7 in flight  TTFT p50 45.0 ms"));
  EXPECT_THAT(table, HasSubstr("40 done  2 failed\n"));
  EXPECT_THAT(line, HasSubstr("10.0 req/s"));
  EXPECT_THAT(line, HasSubstr("share 75/25 %\n"));
}

TEST(DemoTable, ShowsUnknownAsUnknown) {
  const std::string table = render_table(two_rows(), {}, {}, 0, 0);

  EXPECT_THAT(table, ContainsRegex("127.0.0.1:4001 +H100 +[?] +0 +0 +0.0% +-\n"));
  EXPECT_THAT(table, Not(HasSubstr("TTFT p50 0")));
}

}  // namespace
}  // namespace evenkeel
