#include "evenkeel/cli/command_line.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <optional>
#include <string_view>
#include <system_error>

#include "cli/verbs.h"
#include "evenkeel/base/exit_codes.h"
#include "evenkeel/base/out_of_memory.h"
#include "evenkeel/base/refusal_text.h"
#include "evenkeel/base/text_table.h"
#include "evenkeel/config/spelling.h"

namespace evenkeel {
namespace {

std::vector<std::string> verbs_of(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* verb : app.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(verb->get_name());
  }
  return names;
}

bool contains(const std::vector<std::string>& words, const std::string& word) {
  return std::ranges::find(words, word) != words.end();
}

/// The verb that was parsed, such as `ctl drain`, or the program itself.
struct ParsedVerb {
  const CLI::App* app;
  std::string name;  ///< "evenkeel ctl drain"
};

ParsedVerb parsed_verb(const CLI::App& app) {
  ParsedVerb parsed{&app, app.get_name()};
  for (auto verbs = app.get_subcommands(); !verbs.empty(); verbs = parsed.app->get_subcommands()) {
    parsed.app = verbs.front();
    parsed.name += " " + parsed.app->get_name();
  }
  return parsed;
}

/// Every spelling of every option of a verb; of the verbs above it too, where it takes theirs.
std::vector<std::string> options_of(const CLI::App* verb) {
  std::vector<std::string> names;
  for (; verb != nullptr; verb = verb->get_fallthrough() ? verb->get_parent() : nullptr) {
    for (const CLI::Option* option : verb->get_options()) {
      for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
      for (const std::string& name : option->get_snames()) names.push_back("-" + name);
    }
  }
  return names;
}

std::string did_you_mean(const std::optional<std::string>& word) {
  return word ? fmt::format("; did you mean '{}'?", *word) : "";
}

/// What is wrong with the command line. An argument that no option takes explains the most: a
/// misspelt option also makes a required one look missing.
std::string usage_error(const CLI::App& app, const ParsedVerb& verb, const CLI::ParseError& error) {
  const std::vector<std::string> rest = app.remaining(true);
  const auto option = std::ranges::find_if(
      rest, [](const std::string& word) { return word.starts_with('-') && word.size() > 1; });
  if (option != rest.end()) {
    const std::string name = option->substr(0, option->find('='));
    return fmt::format("unknown option '{}'{}", name,
                       did_you_mean(nearest_word(name, options_of(verb.app))));
  }
  if (!rest.empty()) {
    const bool names_verb = verb.app->get_require_subcommand_min() > 0;
    const bool is_file = rest.front().find_first_of("./") != std::string::npos;
    if (is_file && !names_verb && contains(options_of(verb.app), "--config")) {
      return fmt::format("unexpected argument '{0}'; did you mean '-c {0}'?", rest.front());
    }
    const auto meant = names_verb ? nearest_word(rest.front(), verbs_of(*verb.app)) : std::nullopt;
    return fmt::format("unexpected argument '{}'{}", rest.front(), did_you_mean(meant));
  }
  if (error.get_name() == "RequiredError" && verb.app->get_require_subcommand_min() > 0) {
    return fmt::format("name one of {}", fmt::join(verbs_of(*verb.app), ", "));
  }
  return error.what();
}

/// One hint: a whole page of help would push the error off the screen.
int print_usage_error(const std::string& verb, const std::string& error) {
  fmt::print(stderr, "{0}: {1}\nTry '{0} --help'.\n", verb, printable(error));
  return exit_usage;
}

int report_usage_error(const CLI::App& app, const CLI::ParseError& error) {
  const ParsedVerb verb = parsed_verb(app);
  return print_usage_error(verb.name, usage_error(app, verb, error));
}

/// `evenkeel help VERB` is `evenkeel VERB --help`.
void translate_help(std::vector<std::string>& arguments) {
  if (arguments.empty() || arguments.front() != "help") return;
  arguments.erase(arguments.begin());
  arguments.emplace_back("--help");
}

int report_unknown_verb(const CLI::App& app, const std::string& word) {
  std::optional<std::string> meant = nearest_word(word, verbs_of(app));
  for (const char* other : {"ctl", "config", "import", "key", "audit", "picker"}) {
    if (!meant && contains(verbs_of(*app.get_subcommand(other)), word)) {
      meant = fmt::format("{} {}", other, word);
    }
  }
  return print_usage_error("evenkeel",
                           fmt::format("unknown verb '{}'{}", word, did_you_mean(meant)));
}

}  // namespace

void add_verbs(CLI::App& app, Invocation& invocation) {
  add_run_verb(app, invocation);
  add_check_verb(app, invocation);
  add_config_verb(app, invocation);
  add_quick_verb(app, invocation);
  add_ctl_verb(app, invocation);
  add_top_verb(app, invocation);
  add_sim_verb(app, invocation);
  add_load_verb(app, invocation);
  add_demo_verb(app, invocation);
  add_replay_verb(app, invocation);
  add_usage_verb(app, invocation);
  add_audit_verb(app, invocation);
  add_picker_verb(app, invocation);
  add_import_verb(app, invocation);
  add_key_verb(app, invocation);
  add_explain_verb(app, invocation);
  add_completion_verb(app, invocation);
  add_version_verb(app, invocation);
  for (CLI::App* verb : app.get_subcommands([](CLI::App*) { return true; })) verb->group("Verbs");
  add_manual_verb(app, invocation);
}

int run_command_line(std::vector<std::string> arguments, const std::string& version) {
  exit_when_out_of_memory();
  Invocation invocation{.version = version};
  CLI::App app{"A load balancer for AI inference.", "evenkeel"};
  app.require_subcommand(1);
  app.set_version_flag("--version", "evenkeel " + version);
  app.get_formatter()->column_width(34);
  app.get_formatter()->label("SUBCOMMAND", "VERB");
  add_verbs(app, invocation);

  translate_help(arguments);
  // `evenkeel -c FILE` is `evenkeel run -c FILE`.
  const std::string first = arguments.empty() ? "-c" : arguments.front();
  const bool is_meta_option = first == "-h" || first == "--help" || first == "--version";
  if (arguments.empty() || (first.starts_with('-') && !is_meta_option)) {
    arguments.insert(arguments.begin(), "run");
  } else if (!is_meta_option && !contains(verbs_of(app), first)) {
    return report_unknown_verb(app, first);
  }
  std::ranges::reverse(arguments);  // as CLI11 takes them
  try {
    app.parse(arguments);
  } catch (const CLI::Success& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& error) {
    return report_usage_error(app, error);
  } catch (const std::system_error& error) {  // of the kernel: no descriptor, no thread
    fmt::print(stderr, "evenkeel: {}\n", refusal_text("", error.code().value()));
    return exit_failed;
  }
  return invocation.exit_code;
}

}  // namespace evenkeel
