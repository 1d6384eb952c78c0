#include "cli/check_running.h"

#include <fmt/format.h>

#include <chrono>
#include <utility>

#include "cli/admin_text.h"
#include "evenkeel/admin/client.h"
#include "evenkeel/base/exit_codes.h"
#include "evenkeel/base/text_table.h"
#include "evenkeel/json/value.h"

namespace evenkeel {
namespace {

/// A daemon looks names up and reads certificates before it answers.
constexpr Duration check_timeout = std::chrono::seconds(30);

CommandOutput failure(int exit_code, const std::string& what) {
  return {exit_code, {}, fmt::format("evenkeel check: {}\n", printable(what))};
}

/// {"problems": [...], "changes": [...], "takeover": [...], "unchecked": [...]}: the file's
/// warnings and the daemon's problems.
std::string preview_json(const LoadResult& loaded, const JsonValue& preview) {
  std::vector<JsonValue> problems;
  auto warnings = parse_json(problems_json(loaded.warnings));
  if (warnings) problems = warnings->items();
  const auto& refusals = preview["problems"].items();
  problems.insert(problems.end(), refusals.begin(), refusals.end());
  return json_text(JsonValue::Object{{"problems", std::move(problems)},
                                     {"changes", preview["changes"]},
                                     {"takeover", preview["takeover"]},
                                     {"unchecked", preview["unchecked"]}}) +
         "\n";
}

std::string joined(const JsonValue& texts) {
  std::string line;
  for (const JsonValue& text : texts.items()) line += (line.empty() ? "" : ", ") + text.text();
  return line;
}

}  // namespace

CommandOutput report_preview(const CheckOptions& options, const LoadResult& loaded, int status,
                             const std::string& body) {
  auto preview = parse_json(body);
  if (!preview || (status != 200 && (*preview)["error"].text().empty())) {
    return failure(exit_unreachable,
                   fmt::format("the daemon answered with status {} and no result", status));
  }
  if (status != 200) return failure(exit_failed, (*preview)["error"].text());
  const bool accepted = (*preview)["problems"].items().empty();
  CommandOutput output{.exit_code = accepted ? exit_done : exit_failed};
  if (options.json) {
    output.out = preview_json(loaded, *preview);
    return output;
  }
  output.err = render_problems(loaded.warnings, loaded.text);
  if (!accepted) {
    output.err += "a reload would be rejected:\n";
    for (const std::string& line : problems_text((*preview)["problems"])) output.err += line + "\n";
    return output;
  }
  const auto& changes = (*preview)["changes"].items();
  output.out = fmt::format("{}: ok, a reload would change {}\n", options.file,
                           changes.empty() ? "nothing" : "this:");
  for (const JsonValue& change : changes) {
    output.out += fmt::format("  {}\n", printable(change.text()));
  }
  const std::string keys = joined((*preview)["takeover"]);
  if (!keys.empty()) {
    output.out += fmt::format(
        "{} cannot change in a running process: a reload would start another "
        "one, which takes over\n",
        printable(keys));
  }
  const std::string unchecked = joined((*preview)["unchecked"]);
  if (!unchecked.empty()) {
    output.out += fmt::format(
        "the daemon has not looked at: {} (without the admin token it reads only files that its "
        "configuration names)\n",
        printable(unchecked));
  }
  return output;
}

CommandOutput check_running(const CheckOptions& options, AdminTarget given,
                            const Environment& environment) {
  const LoadResult loaded = load_for_check(options, environment);
  if (!loaded.ok()) return report_check(options, loaded);
  auto client = AdminClient::open(completed(std::move(given), loaded.config));
  if (!client) {
    const bool is_usage = client.error().fault == Fault::bad_request;
    return failure(is_usage ? exit_usage : exit_unreachable, client.error().detail);
  }
  auto response = (*client)->post("/api/v1/check", loaded.text, check_timeout);
  if (!response) {
    return failure(exit_unreachable, fmt::format("no answer from {}: {}", (*client)->address(),
                                                 response.error().detail));
  }
  return report_preview(options, loaded, response->status, response->body);
}

}  // namespace evenkeel
