// Values of command-line options that need more than a conversion.
#pragma once

#include <CLI/CLI.hpp>
#include <array>
#include <functional>
#include <string>
#include <utility>

#include "cli/duration_text.h"
#include "evenkeel/admin/client.h"
#include "evenkeel/base/result.h"

namespace evenkeel {

/// Adds an option that takes a duration such as 30s.
CLI::Option* add_duration_option(CLI::App& verb, const std::string& name, const std::string& help,
                                 std::function<void(Duration)> set);

/// Refuses what is no number above 0.
CLI::Validator above_zero();

/// Takes one of the words; completion and manual list them.
CLI::Validator one_of(const std::vector<std::string>& words);

/// Adds the options for a daemon whose admin listener speaks TLS.
std::array<CLI::Option*, 3> add_tls_options(CLI::App& verb, AdminTarget& target);

/// The value of a Result; throws a usage error that names the option where there is none.
template <class T>
T value_or_usage_error(const std::string& option, Result<T> parsed) {
  if (!parsed) throw CLI::ValidationError(option, parsed.error().detail);
  return std::move(*parsed);
}

}  // namespace evenkeel
