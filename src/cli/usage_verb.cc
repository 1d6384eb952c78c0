// The verb `usage`.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cli/check.h"
#include "cli/option_values.h"
#include "cli/usage_text.h"
#include "cli/verbs.h"
#include "evenkeel/base/exit_codes.h"

namespace evenkeel {
namespace {

struct UsageOptions {
  std::vector<std::string> files;
  std::vector<std::string> by;
  UsageTotals::Options totals;
  bool json = false;
};

CommandOutput sum_usage(const UsageOptions& options) {
  UsageTotals::Options selected = options.totals;
  for (const std::string& name : options.by) {
    const auto& names = usage_key_names();
    selected.by.push_back(static_cast<UsageKey>(std::ranges::find(names, name) - names.begin()));
  }
  UsageTotals totals(std::move(selected));
  CommandOutput output;
  for (const std::string& file : options.files) {
    const auto read = totals.add_file(file);
    if (read) continue;
    output.exit_code = exit_failed;
    output.err += fmt::format("cannot be read: {}\n", read.error().detail);
  }
  if (totals.useless_lines() > 0) {
    output.err += fmt::format(
        "{} lines are no whole records, as a full disk or a killed process leaves them\n",
        totals.useless_lines());
  }
  if (totals.duplicates() > 0)
    output.err += fmt::format("{} records were there twice, and count once\n", totals.duplicates());
  output.out = options.json ? usage_json(totals) : usage_table(totals);
  return output;
}

void add_time_option(CLI::App& verb, const char* name, const char* help,
                     std::optional<Duration>& time) {
  verb.add_option_function<std::string>(
          name,
          [name, &time](const std::string& text) {
            const Duration now = std::chrono::system_clock::now().time_since_epoch();
            time = parse_usage_time(text, now);
            if (time) return;
            throw CLI::ValidationError(
                name, fmt::format("'{}' is no date (2026-11-01), time (2026-11-01T12:00:00Z) or "
                                  "duration (7d, 12h)",
                                  text));
          },
          help)
      ->type_name("DATE|TIME|AGO");
}

}  // namespace

void add_usage_verb(CLI::App& app, Invocation& invocation) {
  auto* verb = app.add_subcommand("usage", "Sum usage records");
  auto options = std::make_shared<UsageOptions>();
  verb->add_option("files", options->files, "Files of records, also gzip; - reads standard input")
      ->required()
      ->type_name("FILE");
  verb->add_option("--by", options->by, "Group by these: tenant,model,key,day,pool")
      ->delimiter(',')
      ->check(one_of(usage_key_names()));
  add_time_option(*verb, "--since", "Only requests that ended then or later",
                  options->totals.since);
  add_time_option(*verb, "--until", "Only requests that ended before", options->totals.until);
  verb->add_flag("--json", options->json, "Print JSON");
  verb->footer(
      "A record counts once, however often the files have it. Each takes about 50 bytes of "
      "memory.\n"
      "Exit codes: 0 all files were read, 1 one was not, 2 usage.");
  verb->callback(
      [options, &invocation] { invocation.exit_code = print_output(sum_usage(*options)); });
}

}  // namespace evenkeel
