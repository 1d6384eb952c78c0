#include "cli/sessions_text.h"

#include <fmt/format.h>

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "cli/duration_text.h"

namespace evenkeel {
namespace {

constexpr auto right = TableColumn::Align::right;
constexpr auto left = TableColumn::Align::left;

std::string span_text(const JsonValue& seconds) {
  return seconds.number() ? format_duration(*seconds.number()) : "-";
}

std::string note_text(const JsonValue& session) {
  if (session["has_state"].truth()) return "its state is on the backend";
  return session["confirmed"].truth() ? "" : "no answer yet";
}

/// A backend that the pool no longer has is null.
std::string backend_text(const JsonValue& id) {
  return id.text().empty() ? "(gone)" : printable(id.text());
}

constexpr std::array<DocumentColumn, 2> backend_columns = {{
    {{"BACKEND", left}, "id", plain_text},
    {{"SESSIONS", right}, "sessions", count_text},
}};
constexpr std::array<DocumentColumn, 4> session_columns = {{
    {{"SESSION", left}, "session", plain_text},
    {{"BACKEND", left}, "backend", backend_text},
    {{"IDLE", right}, "idle_seconds", span_text},
    {{"NOTE", left, 1}, "", note_text},
}};
constexpr std::array<DocumentColumn, 4> move_columns = {{
    {{"MOVED", left}, "session", plain_text},
    {{"FROM", left}, "from", backend_text},
    {{"TO", left}, "to", backend_text},
    {{"AGO", right}, "age_seconds", span_text},
}};

std::string heading(const JsonValue& pool) {
  return printable(fmt::format(
      "pool {}: {} sessions of at most {}, {}, kept for {}; requests: {} to their backend, {} new, "
      "{} moved; {} forgotten for lack of room",
      pool["pool"].text(), count_text(pool["sessions"]), count_text(pool["max_sessions"]),
      pool["mode"].text(), span_text(pool["ttl_seconds"]), count_text(pool["hits_total"]),
      count_text(pool["misses_total"]), count_text(pool["moves_total"]),
      count_text(pool["evictions_total"])));
}

}  // namespace

Lines sessions_text(const JsonValue& pools, std::optional<std::size_t> width) {
  if (pools.items().empty()) return {"no sessions: pools with `affinity` keep them"};
  Lines lines;
  const auto add = [&](std::span<const DocumentColumn> columns, const JsonValue& documents) {
    if (documents.items().empty()) return;
    lines.emplace_back();
    for (std::string& line : documents_text(columns, documents.items(), width))
      lines.push_back(std::move(line));
  };
  for (const JsonValue& pool : pools.items()) {
    if (!lines.empty()) lines.emplace_back();
    lines.push_back(heading(pool));
    add(backend_columns, pool["backends"]);
    add(session_columns, pool["newest"]);
    add(move_columns, pool["moves"]);
  }
  return lines;
}

}  // namespace evenkeel
