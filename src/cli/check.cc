#include "cli/check.h"

#include <fmt/format.h>

#include <cstdio>
#include <utility>
#include <vector>

#include "evenkeel/base/exit_codes.h"

namespace evenkeel {

LoadResult load_for_check(const CheckOptions& options, const Environment& environment) {
  LoadResult loaded = load_config(options.file, environment);
  if (!options.strict) return loaded;
  for (Problem& warning : loaded.warnings) {
    warning.severity = Severity::error;
    loaded.problems.push_back(std::move(warning));
  }
  loaded.warnings.clear();
  return loaded;
}

CommandOutput check_command(const CheckOptions& options, const Environment& environment) {
  return report_check(options, load_for_check(options, environment));
}

CommandOutput report_check(const CheckOptions& options, const LoadResult& loaded) {
  std::vector<Problem> problems = loaded.problems;
  problems.insert(problems.end(), loaded.warnings.begin(), loaded.warnings.end());
  CommandOutput output{.exit_code = loaded.ok() ? exit_done : exit_failed};
  if (options.json) {
    output.out = problems_json(problems);
    return output;
  }
  output.err = render_problems(problems, loaded.text);
  if (loaded.ok()) output.out = fmt::format("{}: ok\n", options.file);
  return output;
}

CommandOutput print_command(const std::string& file, bool with_defaults,
                            const Environment& environment) {
  const LoadResult loaded = load_config(file, environment);
  if (!loaded.ok()) return {exit_failed, {}, render_problems(loaded.problems, loaded.text)};
  return {exit_done, print_config(loaded.config, with_defaults), {}};
}

int print_output(const CommandOutput& output) {
  std::fwrite(output.out.data(), 1, output.out.size(), stdout);
  std::fwrite(output.err.data(), 1, output.err.size(), stderr);
  return output.exit_code;
}

}  // namespace evenkeel
