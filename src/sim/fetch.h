// One GET, for what a command wants to know now and then.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "evenkeel/base/clock.h"
#include "evenkeel/net/endpoint.h"
#include "sim/load_target.h"

namespace evenkeel {

/// The body of an answer of status 200 that is whole in time (and at most 16 MiB); nothing
/// otherwise. Blocks.
std::optional<std::string> fetch(const Endpoint& endpoint, std::string_view authority,
                                 std::string_view path, const LoadHeaders& headers,
                                 Duration patience);

}  // namespace evenkeel
