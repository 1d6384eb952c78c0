// Scripts that complete the command line in a shell, generated from its verbs and options.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace evenkeel {

std::string bash_completion(const CLI::App& program);
std::string zsh_completion(const CLI::App& program);
std::string fish_completion(const CLI::App& program);

}  // namespace evenkeel
