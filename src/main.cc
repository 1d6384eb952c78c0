// Arguments to a verb.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <string>

#include "evenkeel/config/load.h"
#include "evenkeel/server/daemon.h"

#ifndef EVENKEEL_VERSION
#define EVENKEEL_VERSION "unknown"
#endif

namespace {

constexpr int exit_usage = 2;

int print(const evenkeel::CommandOutput& output) {
  std::fwrite(output.out.data(), 1, output.out.size(), stdout);
  std::fwrite(output.err.data(), 1, output.err.size(), stderr);
  return output.exit_code;
}

int print_version(bool json) {
  if (json) {
    std::printf("{\"version\":\"%s\",\"compiler\":\"%s\"}\n", EVENKEEL_VERSION, __VERSION__);
  } else {
    std::printf("evenkeel %s\n", EVENKEEL_VERSION);
  }
  return 0;
}

/// What the command line asks for.
struct Arguments {
  std::string config_file;
  bool json = false;
  bool defaults = false;
};

void add_config_option(CLI::App& verb, Arguments& arguments) {
  verb.add_option("-c,--config", arguments.config_file, "the configuration file; - for standard input")
      ->required();
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"evenkeel: a load balancer for AI inference"};
  app.require_subcommand(1);
  app.set_version_flag("--version", "evenkeel " EVENKEEL_VERSION);
  Arguments arguments;
  int exit_code = 0;

  auto* run = app.add_subcommand("run", "serve (the default verb)");
  add_config_option(*run, arguments);
  run->callback([&] {
    exit_code = evenkeel::run_daemon({arguments.config_file, EVENKEEL_VERSION});
  });

  auto* check = app.add_subcommand("check", "report every mistake in a file");
  add_config_option(*check, arguments);
  check->add_flag("--json", arguments.json, "as a JSON list");
  check->callback([&] {
    exit_code = print(evenkeel::check_command(arguments.config_file, arguments.json,
                                              evenkeel::Environment::of_process()));
  });

  auto* config = app.add_subcommand("config", "print a file's meaning, its schema, its reference");
  config->require_subcommand(1);
  auto* config_print = config->add_subcommand("print", "the effective file");
  add_config_option(*config_print, arguments);
  config_print->add_flag("--defaults", arguments.defaults, "with every key that has a default");
  config_print->callback([&] {
    exit_code = print(evenkeel::print_command(arguments.config_file, arguments.defaults,
                                              evenkeel::Environment::of_process()));
  });
  config->add_subcommand("schema", "JSON Schema of the file")->callback([&] {
    exit_code = print(evenkeel::schema_command());
  });
  config->add_subcommand("reference", "every key, as Markdown")->callback([&] {
    exit_code = print(evenkeel::reference_command());
  });

  auto* version = app.add_subcommand("version", "print the version");
  version->add_flag("--json", arguments.json, "as JSON");
  version->callback([&] { exit_code = print_version(arguments.json); });

  // `evenkeel -c FILE` is `evenkeel run -c FILE`.
  std::vector<std::string> words(argv + 1, argv + argc);
  if (!words.empty() && (words.front() == "-c" || words.front().starts_with("--config"))) {
    words.insert(words.begin(), "run");
  }
  std::reverse(words.begin(), words.end());  // as CLI11 wants them
  try {
    app.parse(words);
  } catch (const CLI::ParseError& problem) {
    const int code = app.exit(problem);
    return code == 0 ? 0 : exit_usage;
  }
  return exit_code;
}
