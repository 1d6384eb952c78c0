// `evenkeel check` and `evenkeel config`: what a file means, and what is wrong with it.
#pragma once

#include <string>

#include "evenkeel/config/load.h"

namespace evenkeel {

/// What a verb writes and how it exits.
struct CommandOutput {
  int exit_code = 0;
  std::string out;  ///< to stdout
  std::string err;  ///< to stderr
};

struct CheckOptions {
  std::string file;     ///< "-": standard input
  bool json = false;    ///< errors and warnings as a JSON list
  bool strict = false;  ///< warnings are errors
};

/// Reads the file. With `strict`, what was a warning is an error.
LoadResult load_for_check(const CheckOptions& options, const Environment& environment);
/// Reports every problem of the file. Exit codes: 0 none or only warnings, 1 errors.
CommandOutput check_command(const CheckOptions& options, const Environment& environment);
/// The same for a file that has been read.
CommandOutput report_check(const CheckOptions& options, const LoadResult& loaded);

/// The file as it is understood, with every default or without any.
CommandOutput print_command(const std::string& file, bool with_defaults,
                            const Environment& environment);

/// Writes both texts; returns the exit code.
int print_output(const CommandOutput& output);

}  // namespace evenkeel
