// Files that a configuration names, certificates aside: API keys, the admin token, error pages,
// logs, the state file.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "evenkeel/base/result.h"
#include "evenkeel/config/load.h"

namespace evenkeel {

/// The key in a backend's `api_key_file`: one word of printable ASCII, at most 16 KiB, without the
/// white space around it. Errors: what is wrong with the file, without its path, such as "cannot be
/// read: No such file or directory".
Result<std::string> read_api_key(const std::string& path);

/// The token in `admin.token_file`: 16 to 4096 bytes, without the white space around it. Errors as
/// above.
Result<std::string> read_admin_token(const std::string& path);

/// The key in `audit.key_file`: as long as such a token. Errors as above.
Result<std::string> read_audit_key(const std::string& path);

/// The contents of the files of error pages, by path.
using ErrorPageTexts = std::map<std::string, std::string>;

/// The files of all `error_pages`: each has 64 KiB at most. Errors name the route and the file.
Result<ErrorPageTexts> read_error_pages(const Config& config);

/// Why the daemon could not use a file; nothing if it could. Creates and changes nothing: for an
/// access log that does not exist, and for a state file, the folder must be writable.
std::optional<std::string> named_file_error(FileUse use, const std::string& path);

}  // namespace evenkeel
