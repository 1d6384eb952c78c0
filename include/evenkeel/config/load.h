#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "evenkeel/config/config.h"
#include "evenkeel/config/tls_problem.h"

namespace evenkeel {

// What a file that the configuration names is for.
enum class FileUse {
  api_key,
  backend_list,
  key_set,
  authorities,
  error_page,
  admin_token,
  access_log,
  usage,
  audit,
  audit_key,
  syslog,
  state
};

// What is wrong at a place in a file that the configuration names.
struct FileProblem {
  int line = 0;    // from 1; 0: the file as a whole
  int column = 0;  // from 1, in bytes
  std::string message;
  std::string help;

  bool operator==(const FileProblem&) const = default;
};

// What reading a configuration needs from its surroundings. Any may be empty: then no variable is
// set, every name resolves, no host is this machine, and no other file is looked at.
struct Environment {
  // The value of an environment variable, if it is set.
  std::function<std::optional<std::string>(const std::string& name)> variable;
  // Why a host name has no address, or nothing if it has one. May block on the network.
  // Thread: any, several at a time.
  std::function<std::optional<std::string>(const std::string& host)> resolve_error;
  // Whether an IP address is one of this machine's, loopback included.
  std::function<bool(const IpBytes& ip)> is_local_ip;
  // Why the daemon could not use a file, such as "cannot be read: Permission denied"; nothing if it
  // could. Changes no file. Blocks.
  std::function<std::optional<std::string>(FileUse use, const std::string& path)> file_error;
  // What is wrong with certificates and keys. Both read the files, and block.
  std::function<std::vector<TlsProblem>(const ListenerTlsConfig&)> listener_tls_problems;
  std::function<std::vector<TlsProblem>(const PoolTlsConfig&)> pool_tls_problems;
  // What is wrong with a file of API keys. Reads it, and blocks.
  std::function<std::vector<FileProblem>(const std::string& path,
                                         const std::vector<TenantConfig>& tenants)>
      key_file_problems;
  // How many bytes of memory a process here may use; nothing: no limit. Asked about `auto` and
  // shares. Reads the kernel's files.
  std::function<std::optional<std::uint64_t>(const MemoryLimit&)> memory_limit;

  // This process's environment, name service, interfaces and files; the functions for certificates,
  // keys and memory are empty. Thread: any, but not while another one calls setenv.
  static Environment from_process();
};

enum class Severity {
  error,    // the file is refused
  warning,  // the file is accepted, but probably does not do what its author meant
};

// One mistake in a file, and how to correct it.
struct Problem {
  std::string file;
  int line = 0;         // from 1; 0: the file as a whole (it cannot be read)
  int column = 0;       // from 1, in characters
  std::string path;     // of the key: "pools[0].limits.queue"; empty: the file as a whole
  std::string message;  // what was found and what was expected
  std::string help;     // the correction, e.g. "did you mean 'interval'?"; may be empty
  Severity severity = Severity::error;
  bool in_named_file =
      false;  // true if `file` is one that the configuration names: no line is shown

  bool operator==(const Problem&) const = default;
};

// Where a file has its listeners, the admin listener and the access log, which are opened after it
// has been read.
class Places {
 public:
  struct Place {
    int line = 0;
    int column = 0;
  };
  void add(std::string path, Place place) { places_.insert_or_assign(std::move(path), place); }
  // Gives a problem the place of its path, or of the innermost value around it that is known.
  void locate(Problem& problem) const;

 private:
  std::map<std::string, Place, std::less<>> places_;
};

// What a file takes from the environment. Such a value may be a secret: no message shows it.
struct VariablesUsed {
  std::map<std::string, std::string> written;  // path of a key -> its value as the file has it
  // What must not be shown, and what is shown in place of it, such as ${NAME}. Besides the values
  // of variables there are parts and spellings of them: the host of a URL.
  std::map<std::string, std::string> values;
  // Values of variables as a whole, which are among `values` too.
  std::map<std::string, std::string> whole;

  // Notes the value of a variable.
  void add(const std::string& value, const std::string& name) {
    values.emplace(value, "${" + name + "}");
    whole.emplace(value, "${" + name + "}");
  }
  // The text without these values. One of less than four bytes is only replaced where it is a word.
  std::string hide(std::string text) const;
};

// A file as read: all of its mistakes, or a consistent config.
struct LoadResult {
  Config config;                  // only meaningful when ok()
  std::vector<Problem> problems;  // errors, in the order of the file
  std::vector<Problem> warnings;  // likewise; a file with warnings alone is ok
  std::string hash;               // XXH3 of the text, 16 hexadecimal digits; empty if unreadable
  std::string text;               // what was read, for render_problems
  VariablesUsed variables;
  Places places;

  bool ok() const { return problems.empty(); }
};

// Reads and checks a file, or standard input for "-". Does not throw, whatever the file contains.
// Problems show no value that comes from the environment.
LoadResult load_config(const std::string& file, const Environment& environment);

// Checks `text`; `file` is its name in problems.
LoadResult read_config(std::string_view text, const std::string& file,
                       const Environment& environment);

// Renders problems as text, one per line, each followed by its source line and a caret:
// `file:line:column: error: path: message; help`, or `warning` in place of `error`.
std::string render_problems(const std::vector<Problem>& problems, std::string_view text);

// The problems for programs: a JSON list of {file, line, column, path, message, help, severity}.
std::string problems_json(const std::vector<Problem>& problems);

// Prints the config as a file, which read_config reads back to an equal Config. `with_defaults`:
// prints every key; otherwise only those that differ from their default.
std::string print_config(const Config& config, bool with_defaults);

// Prints the config as `print_config` does, for people: with the names of variables in place of
// their values, and `***` in place of the hashes of keys and of salts. It cannot be read back.
// `variables`: null for none.
std::string show_config(const Config& config, const VariablesUsed* variables);

// JSON Schema 2020-12 of the file.
std::string config_schema();

// Every key as a Markdown page.
std::string config_reference();

}  // namespace evenkeel
