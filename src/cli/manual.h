// The manual pages, generated from the help of the verbs and the reference of the configuration.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <string_view>

namespace evenkeel {

/// evenkeel(1): the program and every verb, except those of `ctl`.
std::string program_manual(const CLI::App& program, const std::string& version);
/// evenkeel-ctl(1).
std::string ctl_manual(const CLI::App& program, const std::string& version);
/// evenkeel.yaml(5): `reference` is the Markdown of config_reference().
std::string config_manual(std::string_view reference, const std::string& version);

}  // namespace evenkeel
