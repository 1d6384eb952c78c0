#include <fmt/format.h>

#include "evenkeel/config/load.h"

namespace evenkeel {
namespace {

constexpr int exit_bad_file = 1;

}  // namespace

CommandOutput check_command(const std::string& file, bool json, const Environment& environment) {
  const LoadResult loaded = load_config(file, environment);
  CommandOutput output;
  output.exit_code = loaded.ok() ? 0 : exit_bad_file;
  if (json) {
    output.out = problems_json(loaded.problems);
  } else if (loaded.ok()) {
    output.out = fmt::format("{}: ok\n", file);
    output.err = render_warnings(loaded.warnings, loaded.text);
  } else {
    output.err = render_problems(loaded.problems, loaded.text);
  }
  return output;
}

CommandOutput print_command(const std::string& file, bool with_defaults,
                            const Environment& environment) {
  const LoadResult loaded = load_config(file, environment);
  if (!loaded.ok()) return {exit_bad_file, {}, render_problems(loaded.problems, loaded.text)};
  return {0, print_config(loaded.config, with_defaults), {}};
}

CommandOutput schema_command() { return {0, config_schema(), {}}; }

CommandOutput reference_command() { return {0, config_reference(), {}}; }

}  // namespace evenkeel
