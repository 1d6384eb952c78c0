// run, check, config, explain, version.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <memory>

#include "cli/admin_target.h"
#include "cli/check.h"
#include "cli/check_running.h"
#include "cli/explain.h"
#include "cli/option_values.h"
#include "cli/terminal.h"
#include "cli/verbs.h"
#include "evenkeel/base/exit_codes.h"
#include "evenkeel/config/load.h"
#include "evenkeel/server/daemon.h"
#include "evenkeel/server/process_environment.h"

namespace evenkeel {
namespace {

constexpr const char* default_config_file = "/etc/evenkeel/evenkeel.yaml";

/// Adds -c. A file that is not named is the default one, which must be there then.
void add_config_option(CLI::App& verb, std::string& file) {
  file = default_config_file;
  auto* option = verb.add_option("-c,--config", file, "Configuration file; - reads standard input")
                     ->type_name("FILE")
                     ->capture_default_str();
  verb.parse_complete_callback([option] {
    if (option->count() == 0 && access(default_config_file, F_OK) != 0)
      throw CLI::ValidationError(
          fmt::format("there is no {}: name a file with -c FILE", default_config_file));
  });
}

}  // namespace

void add_run_verb(CLI::App& app, Invocation& invocation) {
  auto* verb = app.add_subcommand("run", "Serve a configuration file (the default verb)");
  auto file = std::make_shared<std::string>();
  auto test = std::make_shared<bool>(false);
  add_config_option(*verb, *file);
  verb->add_flag("-t", *test, "Check the file and exit, as `check` does");
  verb->footer(
      "Runs in the foreground. Prints `listening name=NAME address=ADDRESS` for each listener,\n"
      "then `ready`, on stderr.\n"
      "Signals: HUP reloads the file, TERM, QUIT and INT drain and exit (a second one exits at\n"
      "once), USR1 reopens the access log, USR2 upgrades to the binary at its path.\n"
      "Exit codes: 0 drained, 1 the file or the start failed, 2 usage, 3 the drain deadline "
      "passed\n"
      "with requests in flight.");
  verb->callback([file, test, &invocation] {
    invocation.exit_code = *test
                               ? print_output(check_command({.file = *file}, process_environment()))
                               : run_daemon({*file, invocation.version});
  });
}

void add_check_verb(CLI::App& app, Invocation& invocation) {
  auto* verb = app.add_subcommand("check", "Report every mistake in a configuration file");
  auto options = std::make_shared<CheckOptions>();
  auto offline = std::make_shared<bool>(false);
  auto running = std::make_shared<bool>(false);
  auto target = std::make_shared<AdminTarget>();
  add_config_option(*verb, options->file);
  verb->add_flag("--json", options->json, "Print errors and warnings as a JSON list");
  verb->add_flag("--strict", options->strict, "Take warnings for errors");
  verb->add_flag("--offline", *offline, "Do not look up host names");
  auto* running_flag =
      verb->add_flag("--running", *running,
                     "Also report what a reload of the running daemon would refuse or change");
  verb->add_option("--admin", target->address,
                   "With --running: address of its admin listener; default: the file's")
      ->needs(running_flag)
      ->type_name("HOST:PORT");
  verb->add_option("--token-file", target->token_file,
                   "With --running: file with its admin token; default: the file's")
      ->needs(running_flag)
      ->type_name("FILE");
  for (CLI::Option* option : add_tls_options(*verb, *target)) option->needs(running_flag);
  verb->footer(
      "Checks the file as `run` and a reload do: syntax, keys, values, what they mean together, "
      "and\n"
      "the certificates, keys and logs that the file names. A backend whose name has no address "
      "now\n"
      "is a warning, as in a running daemon.\n"
      "Exit codes: 0 the file can be used (there may be warnings), 1 it cannot, or there are\n"
      "warnings with --strict, 2 usage, 5 the daemon does not answer.");
  verb->callback([options, offline, running, target, &invocation] {
    Environment environment = process_environment();
    if (*offline) environment.resolve_error = nullptr;
    invocation.exit_code = print_output(*running ? check_running(*options, *target, environment)
                                                 : check_command(*options, environment));
  });
}

void add_config_verb(CLI::App& app, Invocation& invocation) {
  auto* verb = app.add_subcommand("config", "Print a file as it is understood, or its reference");
  verb->require_subcommand(1);
  auto* print = verb->add_subcommand("print", "The effective configuration of a file, as YAML");
  auto file = std::make_shared<std::string>();
  auto defaults = std::make_shared<bool>(false);
  add_config_option(*print, *file);
  print->add_flag("--defaults", *defaults, "Include every key that has its default value");
  print->callback([file, defaults, &invocation] {
    invocation.exit_code = print_output(print_command(*file, *defaults, process_environment()));
  });
  verb->add_subcommand("schema", "JSON Schema of the configuration file")->callback([&invocation] {
    invocation.exit_code = print_output({exit_done, config_schema(), {}});
  });
  verb->add_subcommand("reference", "Every key, as a Markdown page")->callback([&invocation] {
    invocation.exit_code = print_output({exit_done, config_reference(), {}});
  });
}

void add_explain_verb(CLI::App& app, Invocation& invocation) {
  auto* verb = app.add_subcommand("explain", "What a reason means: x-evenkeel-reason and the log");
  auto reason = std::make_shared<std::string>();
  auto page = std::make_shared<bool>(false);
  verb->add_option("reason", *reason, "Such as queue_full; without it, all are listed")
      ->type_name("REASON");
  verb->add_flag("--page", *page, "All of them as a Markdown page");
  verb->footer("For one request: evenkeel ctl explain REQUEST-ID.");
  verb->callback([reason, page, &invocation] {
    const std::size_t width = std::min<std::size_t>(terminal_width().value_or(100), 100);
    invocation.exit_code = print_output(*page ? CommandOutput{exit_done, reasons_page(), {}}
                                              : explain_command(*reason, width));
  });
}

void add_version_verb(CLI::App& app, Invocation& invocation) {
  auto* verb = app.add_subcommand("version", "Print the version");
  auto json = std::make_shared<bool>(false);
  verb->add_flag("--json", *json, "Print it as JSON, with the compiler's");
  verb->callback([json, &invocation] {
    if (*json) {
      fmt::print("{{\"version\":\"{}\",\"compiler\":\"{}\"}}\n", invocation.version, __VERSION__);
    } else {
      fmt::print("evenkeel {}\n", invocation.version);
    }
  });
}

}  // namespace evenkeel
