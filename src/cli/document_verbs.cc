// completion, manual: what is generated from the verbs themselves.
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "cli/check.h"
#include "cli/completion.h"
#include "cli/manual.h"
#include "cli/option_values.h"
#include "cli/verbs.h"
#include "evenkeel/base/decimal.h"
#include "evenkeel/base/exit_codes.h"
#include "evenkeel/base/rfc3339.h"
#include "evenkeel/config/load.h"

namespace evenkeel {
namespace {

/// SOURCE_DATE_EPOCH, which packagers set, or today.
std::string date_of_build() {
  const char* const variable = std::getenv("SOURCE_DATE_EPOCH");
  const auto seconds = parse_number<std::int64_t>(variable ? variable : "");
  using std::chrono::system_clock;
  const auto time = seconds ? std::chrono::sys_seconds(std::chrono::seconds(*seconds))
                            : std::chrono::floor<std::chrono::seconds>(system_clock::now());
  return rfc3339(time).substr(0, 10);
}

/// The reference with the paths of an installed system instead of those of the source.
std::string installed_paths(std::string text) {
  static constexpr std::pair<std::string_view, std::string_view> paths[] = {
      {"[`config/`](../config)", "`/usr/share/doc/evenkeel/examples`"},
      {"$schema=", "$schema=/usr/share/evenkeel/"},
      {"`config/evenkeel.schema.json`", "`/usr/share/evenkeel/evenkeel.schema.json`"},
  };
  for (const auto& [ours, installed] : paths) {
    const std::size_t at = text.find(ours);
    if (at != std::string::npos) text.replace(at, ours.size(), installed);
  }
  return text;
}

}  // namespace

void add_completion_verb(CLI::App& app, Invocation& invocation) {
  auto* verb = app.add_subcommand("completion", "Print a script that completes the command line");
  auto shell = std::make_shared<std::string>();
  verb->add_option("shell", *shell, "The shell that reads the script")
      ->required()
      ->check(one_of({"bash", "zsh", "fish"}));
  verb->footer(
      "For this shell only:\n"
      "  source <(evenkeel completion bash)\n"
      "  source <(evenkeel completion zsh)\n"
      "  evenkeel completion fish | source\n"
      "The Debian package installs all three.");
  verb->callback([shell, &app, &invocation] {
    const auto script = *shell == "bash"  ? bash_completion
                        : *shell == "zsh" ? zsh_completion
                                          : fish_completion;
    invocation.exit_code = print_output({exit_done, script(app), {}});
  });
}

/// Adds a verb for packagers, which no help shows.
void add_manual_verb(CLI::App& app, Invocation& invocation) {
  auto* verb = app.add_subcommand("manual", "Print a manual page")->group("");
  auto page = std::make_shared<std::string>();
  verb->add_option("page", *page, "Name of the page")
      ->required()
      ->check(one_of({"evenkeel", "evenkeel-ctl", "evenkeel.yaml"}));
  verb->callback([page, &app, &invocation] {
    const ManualEdition edition{invocation.version, date_of_build()};
    std::string text;
    if (*page == "evenkeel") text = program_manual(app, edition);
    if (*page == "evenkeel-ctl") text = ctl_manual(app, edition);
    if (*page == "evenkeel.yaml")
      text = config_manual(installed_paths(config_reference()), edition);
    invocation.exit_code = print_output({exit_done, text, {}});
  });
}

}  // namespace evenkeel
