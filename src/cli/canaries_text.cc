#include "cli/canaries_text.h"

#include <array>

namespace evenkeel {
namespace {

constexpr auto right = TableColumn::Align::right;
constexpr auto left = TableColumn::Align::left;

constexpr std::array<DocumentColumn, 8> columns = {{
    {{"ROUTE", left}, "route", plain_text},
    {{"CANARY", left}, "target", plain_text},
    {{"STATE", left}, "state", plain_text},
    {{"REASON", left}, "reason", word_text},
    {{"WINDOW", right, 1}, "window_seconds", seconds_text},
    {{"REQUESTS", right}, "requests", count_text},
    {{"FAILED", right}, "failures", count_text},
    {{"SLOW", right}, "slow", count_text},
}};

}  // namespace

Lines canaries_text(const JsonValue& canaries, std::optional<std::size_t> width) {
  if (canaries.items().empty()) return {"no canaries: no route has one (`routes[].canary`)"};
  return documents_text(columns, canaries.items(), width);
}

}  // namespace evenkeel
