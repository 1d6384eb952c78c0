// The file of API keys that a configuration names (`auth.keys.file`).
#pragma once

#include <string>
#include <vector>

#include "evenkeel/config/config.h"
#include "evenkeel/config/load.h"
#include "evenkeel/tenancy/key_table.h"

namespace evenkeel {

/// The keys of a configuration: its own, and those of its file of keys. A problem of the file as a
/// whole is in line 0. Blocks. Thread: any.
KeyTable::Built read_api_keys(const std::vector<TenantConfig>& tenants, const std::string& file);
KeyTable::Built read_api_keys(const Config& config);

}  // namespace evenkeel
