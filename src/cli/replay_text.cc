#include "cli/replay_text.h"

#include <fmt/format.h>

#include "evenkeel/base/text_table.h"

namespace evenkeel {
namespace {

std::string percent(double ratio) { return fmt::format("{:.1f}", 100 * ratio); }

std::string milliseconds(double seconds) { return fmt::format("{:.0f}", 1e3 * seconds); }

std::vector<std::string> cells_of(const ReplayRow& row) {
  return {row.picker,
          fmt::format("{}", row.backends),
          fmt::format("{}", row.requests),
          percent(row.goodput_ratio),
          fmt::format("{:.2f}", row.ttft_p50),
          fmt::format("{:.2f}", row.ttft_p90),
          fmt::format("{:.2f}", row.ttft_p99),
          fmt::format("{:.1f}", row.slowdown_p90),
          fmt::format("{:.1f}", row.slowdown_p99),
          milliseconds(row.tpot_p50),
          milliseconds(row.tpot_p99),
          fmt::format("{:.1f}", row.e2e_p50),
          fmt::format("{:.1f}", row.e2e_p99),
          percent(row.hit_ratio),
          percent(row.utilization_ratio),
          fmt::format("{:.2f}", row.imbalance),
          fmt::format("{}", row.shed),
          fmt::format("{}", row.unfinished)};
}

std::string json_of(const ReplayRow& row) {
  return fmt::format(
      R"({{"picker":"{}","backends":{},"requests":{},"goodput_ratio":{:.6f},)"
      R"("ttft_seconds":{{"p50":{:.6f},"p90":{:.6f},"p99":{:.6f}}},)"
      R"("slowdown":{{"p90":{:.4f},"p99":{:.4f}}},"tpot_seconds":{{"p50":{:.6f},"p99":{:.6f}}},)"
      R"("e2e_seconds":{{"p50":{:.6f},"p99":{:.6f}}},"hit_ratio":{:.6f},)"
      R"("utilization_ratio":{:.6f},"imbalance":{:.4f},"shed":{},"unfinished":{}}})",
      row.picker, row.backends, row.requests, row.goodput_ratio, row.ttft_p50, row.ttft_p90,
      row.ttft_p99, row.slowdown_p90, row.slowdown_p99, row.tpot_p50, row.tpot_p99, row.e2e_p50,
      row.e2e_p99, row.hit_ratio, row.utilization_ratio, row.imbalance, row.shed, row.unfinished);
}

}  // namespace

std::string replay_table(const std::vector<ReplayRow>& rows) {
  using Align = TableColumn::Align;
  std::vector<TableColumn> columns = {{.heading = "picker"}};
  for (const char* heading : {"backends", "requests", "goodput %", "TTFT p50 s", "p90", "p99",
                              "slowdown p90", "p99", "TPOT p50 ms", "p99", "e2e p50 s", "p99",
                              "hit %", "busy %", "imbalance", "shed", "unfinished"}) {
    columns.push_back({.heading = heading, .align = Align::right});
  }
  TextTable table(std::move(columns));
  for (const ReplayRow& row : rows) table.add(cells_of(row));
  return fmt::format("{}\n", fmt::join(table.lines(), "\n"));
}

std::string replay_json(const std::vector<ReplayRow>& rows) {
  std::vector<std::string> texts;
  for (const ReplayRow& row : rows) texts.push_back(json_of(row));
  return fmt::format("{{\"rows\":[{}]}}\n", fmt::join(texts, ","));
}

}  // namespace evenkeel
