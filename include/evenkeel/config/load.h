#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "evenkeel/config/config.h"
#include "evenkeel/config/tls_problem.h"

namespace evenkeel {

// What reading a file needs from outside. Any may be empty: then no variable is set, every name
// resolves, and certificates are not looked at.
struct Environment {
  // The value of an environment variable, if it is set.
  std::function<std::optional<std::string>(const std::string& name)> variable;
  // Why a host name has no address, or nothing if it has one. May block on the network.
  // Thread: any, several at a time.
  std::function<std::optional<std::string>(const std::string& host)> resolve_error;
  // What is wrong with the files of certificates and keys. Read them; block.
  std::function<std::vector<TlsProblem>(const ListenerTlsConfig&)> listener_tls_problems;
  std::function<std::vector<TlsProblem>(const PoolTlsConfig&)> pool_tls_problems;

  // getenv and getaddrinfo; nothing for certificates. Thread: any that does not race with setenv.
  static Environment from_process();
};

// One mistake in a file, and how to cure it.
struct Problem {
  std::string file;
  int line = 0;         // from 1; 0: the file as a whole (it cannot be read)
  int column = 0;       // from 1, in characters
  std::string path;     // of the key: "pools[0].limits.queue"; empty: the file as a whole
  std::string message;  // what was found and what was expected
  std::string help;     // the cure, e.g. "did you mean 'interval'?"; may be empty

  bool operator==(const Problem&) const = default;
};

// A file as read: all of its mistakes, or a config that fits together.
struct LoadResult {
  Config config;                  // only meaningful when ok()
  std::vector<Problem> problems;  // in the order of the file
  std::vector<Problem> warnings;  // likewise; a file with these alone is ok
  std::string hash;               // XXH3 of the text, 16 hexadecimal digits; empty if unreadable
  std::string text;               // what was read, for render_problems

  bool ok() const { return problems.empty(); }
};

// Reads and checks a file, or standard input for "-". Never throws for what stands in it.
LoadResult load_config(const std::string& file, const Environment& environment);

// The same for a text at hand; `file` only names it in problems.
LoadResult read_config(std::string_view text, const std::string& file,
                       const Environment& environment);

// For people, one line per problem, each followed by its source line and a caret:
// `file:line:column: error: path: message; help`.
std::string render_problems(const std::vector<Problem>& problems, std::string_view text);

// The same for warnings.
std::string render_warnings(const std::vector<Problem>& warnings, std::string_view text);

// For programs: a JSON list of {file, line, column, path, message, help}.
std::string problems_json(const std::vector<Problem>& problems);

// The config as a file, which read_config reads back to an equal Config. With defaults every key is
// there, without only those that differ from their default.
std::string print_config(const Config& config, bool with_defaults);

// JSON Schema 2020-12 of the file.
std::string config_schema();

// Every key as a Markdown page.
std::string config_reference();

// The verbs `check` and `config print|schema|reference`: what to write and how to exit.
struct CommandOutput {
  int exit_code = 0;
  std::string out;  // to stdout
  std::string err;  // to stderr
};

CommandOutput check_command(const std::string& file, bool json, const Environment& environment);
CommandOutput print_command(const std::string& file, bool with_defaults,
                            const Environment& environment);
CommandOutput schema_command();
CommandOutput reference_command();

}  // namespace evenkeel
