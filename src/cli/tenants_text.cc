#include "cli/tenants_text.h"

#include <array>
#include <string>

namespace evenkeel {
namespace {

constexpr auto right = TableColumn::Align::right;
constexpr auto left = TableColumn::Align::left;

std::string ratio_text(const JsonValue& ratio) { return percent_text(ratio.number()); }

constexpr std::array<DocumentColumn, 12> tenant_columns = {{
    {{"TENANT", left}, "name", plain_text},
    {{"WEIGHT", right, 4}, "weight", count_text},
    {{"PRIORITY", left, 5}, "priority", word_text},
    {{"RUN", right}, "running", count_text},
    {{"WAIT", right}, "waiting", count_text},
    {{"REQ/S", right, 2}, "requests_per_second", count_text},
    {{"OUT TOK/S", right, 3}, "output_tokens_per_second", count_text},
    {{"SHARE", right, 1}, "tokens_ratio", ratio_text},
    {{"REQUESTS", right, 6}, "requests_total", count_text},
    {{"IN TOKENS", right, 8}, "input_tokens_total", count_text},
    {{"OUT TOKENS", right, 7}, "output_tokens_total", count_text},
    {{"LIMIT USED", left, 2}, "limits", limits_text},
}};

}  // namespace

Lines tenants_text(const JsonValue& tenants, std::optional<std::size_t> width) {
  if (tenants.items().empty()) return {"no tenants: the file names none (`tenants`)"};
  return documents_text(tenant_columns, tenants.items(), width);
}

}  // namespace evenkeel
