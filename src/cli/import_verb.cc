// The verb `import`.
#include <fmt/format.h>

#include <memory>
#include <string>
#include <utility>

#include "cli/check.h"
#include "cli/import_text.h"
#include "cli/verbs.h"
#include "evenkeel/base/exit_codes.h"
#include "evenkeel/config/foreign.h"

namespace evenkeel {
namespace {

constexpr std::pair<const char*, ImportFormat> formats[] = {{"nginx", ImportFormat::nginx},
                                                            {"haproxy", ImportFormat::haproxy},
                                                            {"litellm", ImportFormat::litellm}};

CommandOutput import_file(ImportFormat format, const std::string& file, const std::string& listen) {
  std::string why;
  const std::string name = file == "-" ? "<stdin>" : file;
  const auto text = read_foreign_file(file, why);
  if (!text) return {exit_failed, {}, fmt::format("{}: cannot be read: {}\n", name, why)};
  return import_output(import_config(format, *text, listen), name);
}

}  // namespace

void add_import_verb(CLI::App& app, Invocation& invocation) {
  auto* verb = app.add_subcommand("import", "A configuration from nginx's, HAProxy's or LiteLLM's");
  verb->require_subcommand(1);
  verb->footer(
      "Prints an evenkeel.yaml for the part that can be read. What is left out, with its line,\n"
      "stands in its comments and on stderr; a route that answers 403 or 501 stands in its place.\n"
      "Files that FILE includes are not read.\n"
      "Exit codes: 0 a configuration was printed, 1 there is none, 2 usage.");
  for (const auto& [name, format] : formats) {
    auto* each = verb->add_subcommand(name, fmt::format("From a configuration of {}", name));
    auto file = std::make_shared<std::string>();
    each->add_option("file", *file, "- reads standard input")->required()->type_name("FILE");
    auto listen = std::make_shared<std::string>();
    if (format != ImportFormat::litellm) {
      each->add_option("--listen", *listen, "Read only what listens at this address of FILE")
          ->type_name("ADDRESS");
    }
    each->callback([file, listen, chosen = format, &invocation] {
      invocation.exit_code = print_output(import_file(chosen, *file, *listen));
    });
  }
}

}  // namespace evenkeel
