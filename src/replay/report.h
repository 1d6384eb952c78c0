// The figures of a replay.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "evenkeel/replay/replay.h"
#include "evenkeel/replay/replayed_request.h"
#include "replay/virtual_fleet.h"

namespace evenkeel {

/// Seconds that an idle engine with an empty cache takes for a prompt.
double unloaded_prefill_seconds(const EngineSpec& engine, std::uint32_t prompt_tokens);

/// `took`: from the first arrival to the end. REQUIRES: there are requests.
ReplayRow report(const ReplayOptions& options, std::string_view picker,
                 const std::vector<std::unique_ptr<ReplayedRequest>>& requests,
                 const std::vector<std::unique_ptr<VirtualEngine>>& engines, Duration took);

}  // namespace evenkeel
