// The `evenkeel` program: from the arguments of its command line to a verb.
#pragma once

#include <string>
#include <vector>

namespace evenkeel {

/// Runs the verb that `arguments` (without the program's name) names; without one, `run`. Returns
/// the exit code: 0 done, 1 the verb failed, 2 usage, and what each verb adds (docs/operations.md).
int run_command_line(std::vector<std::string> arguments, const std::string& version);

}  // namespace evenkeel
