// Reads the reports of load that engines send with their responses (ORCA).
#pragma once

#include <optional>
#include <string_view>

#include "evenkeel/base/load_sample.h"

namespace evenkeel {

/// The value of `endpoint-load-metrics`: "TEXT name=value, ...", "JSON {...}" or "BIN base64". Read
/// are the names of vLLM and Triton. Nothing: it is malformed, or has none of them.
std::optional<LoadSample> read_load_report(std::string_view value);

/// The value of `endpoint-load-metrics-bin`: a message in base64.
std::optional<LoadSample> read_binary_load_report(std::string_view value);

}  // namespace evenkeel
