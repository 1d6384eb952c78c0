// The verb `key`.
#include <chrono>
#include <memory>
#include <string>
#include <utility>

#include "cli/key_commands.h"
#include "cli/terminal.h"
#include "cli/verbs.h"
#include "evenkeel/base/rfc3339.h"

namespace evenkeel {
namespace {

/// Refuses what cannot be one word of a line of the file.
std::string word_problem(const std::string& text) {
  if (text.empty()) return "is empty";
  const bool is_word = text.find_first_of(" \t\r\n#") == std::string::npos;
  return is_word ? "" : "'" + text + "' has a blank or a '#': write - in place of it";
}

std::string expiry_problem(const std::string& text) {
  const auto time = parse_rfc3339(text);
  if (!time) return "'" + text + "' is not a date and time; write 2027-01-31T00:00:00Z";
  const bool is_over = *time <= std::chrono::system_clock::now().time_since_epoch();
  return is_over ? "'" + text + "' is over" : "";
}

CLI::Option* add_file_option(CLI::App& verb, std::string& file) {
  return verb.add_option("--file", file, "The file of keys, as `auth.keys.file` names it")
      ->required()
      ->type_name("FILE");
}

void add_create_verb(CLI::App& key, Invocation& invocation) {
  struct Options {
    std::string file;
    NewKey key;
  };
  auto* verb = key.add_subcommand("create", "Make a key, and print it once");
  auto options = std::make_shared<Options>();
  add_file_option(*verb, options->file);
  verb->add_option("--tenant", options->key.tenant, "Whose key it is: a name of `tenants`")
      ->required()
      ->check(word_problem)
      ->type_name("TENANT");
  verb->add_option("--name", options->key.name, "What people know it by, such as alice-laptop")
      ->check(word_problem)
      ->type_name("NAME");
  verb->add_option("--models", options->key.models,
                   "The models that it is for, such as 'llama-*,qwen-7b'; default: its tenant's")
      ->delimiter(',')
      ->check(word_problem)
      ->type_name("GLOB,GLOB");
  verb->add_option_function<std::string>(
          "--expires",
          [options](const std::string& text) {
            options->key.expires = std::chrono::sys_seconds(
                std::chrono::floor<std::chrono::seconds>(*parse_rfc3339(text)));
          },
          "When it stops to count, such as 2027-01-31T00:00:00Z")
      ->check(expiry_problem)
      ->type_name("TIME");
  verb->callback([options, &invocation] {
    invocation.exit_code = print_output(create_key(options->file, options->key));
  });
}

void add_list_verb(CLI::App& key, Invocation& invocation) {
  auto* verb = key.add_subcommand("list", "List the keys of a file");
  auto file = std::make_shared<std::string>();
  auto json = std::make_shared<bool>(false);
  add_file_option(*verb, *file);
  verb->add_flag("--json", *json, "For programs: a JSON list");
  verb->callback([file, json, &invocation] {
    invocation.exit_code = print_output(list_keys(*file, *json, terminal_width()));
  });
}

void add_revoke_verb(CLI::App& key, Invocation& invocation) {
  auto* verb = key.add_subcommand("revoke", "Remove a key from a file");
  auto file = std::make_shared<std::string>();
  auto id = std::make_shared<std::string>();
  add_file_option(*verb, *file);
  verb->add_option("id", *id, "The id of the key, as `key list` and the log show it")->required();
  verb->callback(
      [file, id, &invocation] { invocation.exit_code = print_output(revoke_key(*file, *id)); });
}

}  // namespace

void add_key_verb(CLI::App& app, Invocation& invocation) {
  auto* verb = app.add_subcommand("key", "Make, list and revoke API keys");
  verb->require_subcommand(1);
  verb->footer(
      "The file has a hash of each key, and no key. A daemon whose `auth.keys.file` it is\n"
      "follows its changes within 2 s, without a reload.\n"
      "Exit codes: 0 done, 1 the file cannot be read or written or has mistakes, 2 usage.");
  add_create_verb(*verb, invocation);
  add_list_verb(*verb, invocation);
  add_revoke_verb(*verb, invocation);
}

}  // namespace evenkeel
