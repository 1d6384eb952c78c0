// `evenkeel check --running`: what a daemon would do with a file.
#pragma once

#include <string>

#include "cli/admin_target.h"
#include "cli/check.h"
#include "evenkeel/config/load.h"

namespace evenkeel {

/// Checks the file, then sends it to a daemon, which says what a reload of it would refuse or
/// change. `given`: where it is; what is empty is taken from the file. With `options.json`, prints
/// {"problems": [...], "changes": [...]}. Blocks. Exit codes: 0 a reload would be accepted, 1 it
/// would not, 2 the address makes no sense, 5 the daemon does not answer.
CommandOutput check_running(const CheckOptions& options, AdminTarget given,
                            const Environment& environment);

/// What a daemon's response to POST /api/v1/check comes to.
CommandOutput report_preview(const CheckOptions& options, const LoadResult& loaded, int status,
                             const std::string& body);

}  // namespace evenkeel
