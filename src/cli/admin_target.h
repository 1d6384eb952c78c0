// Which daemon a verb talks to, and what authorizes changes to it.
#pragma once

#include <string>
#include <variant>

#include "cli/check.h"
#include "evenkeel/admin/client.h"
#include "evenkeel/config/config.h"

namespace evenkeel {

/// `given`, with what is empty taken from a configuration, which the daemon may not have read yet.
/// An address that neither names is the default of the configuration.
AdminTarget completed(AdminTarget given, const Config& config);

/// A daemon as its file names it.
struct FoundTarget {
  AdminTarget target;
  /// The file's mistakes, as text, if they may hide the daemon's address, so that `target` is a
  /// guess; empty: it is none.
  std::string doubt;
};

/// The same, from a file; an empty `config_file` stands for an empty configuration. What to print
/// and how to exit if the file cannot be read.
std::variant<FoundTarget, CommandOutput> find_target(AdminTarget given,
                                                     const std::string& config_file);

}  // namespace evenkeel
