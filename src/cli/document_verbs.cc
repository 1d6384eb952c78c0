// completion, manual: what is generated from the verbs themselves.
#include <functional>
#include <memory>
#include <string>

#include "cli/check.h"
#include "cli/completion.h"
#include "cli/manual.h"
#include "cli/verbs.h"
#include "evenkeel/base/exit_codes.h"
#include "evenkeel/config/load.h"

namespace evenkeel {

void add_completion_verb(CLI::App& app, Invocation& invocation) {
  auto* verb = app.add_subcommand("completion", "Print a script that completes the command line");
  auto shell = std::make_shared<std::string>();
  verb->add_option("shell", *shell, "The shell that reads the script")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
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
      ->check(CLI::IsMember({"evenkeel", "evenkeel-ctl", "evenkeel.yaml"}));
  verb->callback([page, &app, &invocation] {
    std::string text;
    if (*page == "evenkeel") text = program_manual(app, invocation.version);
    if (*page == "evenkeel-ctl") text = ctl_manual(app, invocation.version);
    if (*page == "evenkeel.yaml") text = config_manual(config_reference(), invocation.version);
    invocation.exit_code = print_output({exit_done, text, {}});
  });
}

}  // namespace evenkeel
