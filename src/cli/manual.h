// The manual pages, generated from the help of the verbs and the reference of the configuration.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <string_view>

namespace evenkeel {

/// What a page says of itself in its footer.
struct ManualEdition {
  std::string version;
  std::string date;  ///< "2026-01-31"
};

/// evenkeel(1): the program and every verb, except those of `ctl`.
std::string program_manual(const CLI::App& program, const ManualEdition& edition);
/// evenkeel-ctl(1).
std::string ctl_manual(const CLI::App& program, const ManualEdition& edition);
/// evenkeel.yaml(5): `reference` is the Markdown of config_reference().
std::string config_manual(std::string_view reference, const ManualEdition& edition);

}  // namespace evenkeel
