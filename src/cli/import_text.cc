#include "cli/import_text.h"

#include <fmt/format.h>

#include "evenkeel/base/exit_codes.h"
#include "evenkeel/base/text_table.h"
#include "evenkeel/config/load.h"

namespace evenkeel {
namespace {

std::string place(const std::string& file, int line) {
  return line > 0 ? fmt::format("{}:{}", file, line) : file;
}

}  // namespace

CommandOutput import_output(const Import& result, const std::string& file) {
  const std::string name = printable(file);
  if (!result.config) {
    std::string err;
    for (const ImportNote& note : result.notes) {
      err += fmt::format("{}: {}\n", place(name, note.line), note.text);
    }
    err += fmt::format("{}: error: {}\n", place(name, result.error.line), result.error.text);
    return {exit_failed, {}, std::move(err)};
  }
  std::string listens;
  for (const ListenerConfig& each : result.config->listeners) {
    listens += (listens.empty() ? "" : ", ") + to_string(each.address);
  }
  std::string out =
      fmt::format("# From {}. Listens on {}. Check it: evenkeel check -c FILE\n", name, listens);
  std::string err;
  for (const ImportNote& note : result.notes) {
    const std::string text = (note.opens ? "NOT PROTECTED ANY MORE: " : "") + note.text;
    out += note.line > 0 ? fmt::format("# line {}: {}\n", note.line, text)
                         : fmt::format("# {}\n", text);
    err += fmt::format("{}: {}\n", place(name, note.line), text);
  }
  const std::string yaml = print_config(*result.config, false);
  for (const Problem& problem : read_config(yaml, name, Environment{}).problems) {
    out += fmt::format("# to correct: {}: {}\n", problem.path, printable(problem.message));
    err += fmt::format("{}: to correct: {}: {}\n", name, problem.path, printable(problem.message));
  }
  return {exit_done, out + yaml, std::move(err)};
}

}  // namespace evenkeel
