// Lists of backends that do not stand in the configuration itself.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "evenkeel/base/result.h"
#include "evenkeel/config/config.h"

namespace evenkeel {

// What a list may have. `targets`: groups of targets as in Prometheus' HTTP and file discovery,
// [{targets: [host:port], labels: {}}]. `any`: these, or backends as in `pools[].backends`.
enum class BackendListKind { targets, any };

// Reads a list in YAML or JSON. Fills in no variables. Does not throw, whatever the text contains.
// Errors: "3:5: the first mistake; its correction", with its line and column.
Result<std::vector<BackendConfig>> read_backend_list(std::string_view text, BackendListKind kind);

// The list in a file of at most 4 MiB, of any kind. Errors say too that it cannot be read. Blocks.
Result<std::vector<BackendConfig>> read_backend_file(const std::string& path);

}  // namespace evenkeel
