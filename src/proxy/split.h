// Which pool of a route's split gets a request.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "evenkeel/base/rng.h"
#include "evenkeel/http/message.h"

namespace evenkeel {

/// The same number for all requests of a conversation: from the field `header`, else from the
/// session that the body names, else from how its prompt begins. Nothing if the request has none of
/// these, or only the last two and its body was not inspected.
std::optional<std::uint64_t> conversation_of(const Request& request, std::string_view header);

/// Where a conversation falls on a scale of `sum` shares: below `sum`. As a fraction of `sum` it
/// depends on the arguments before it only, so every worker, process and replica agrees, and other
/// shares move only the conversations between the old borders and the new ones. `salt` keeps the
/// splits of different routes independent of each other. REQUIRES: sum > 0.
constexpr std::uint32_t split_point(std::uint64_t conversation, std::uint64_t salt,
                                    std::uint32_t sum) {
  return static_cast<std::uint32_t>((mix(conversation ^ salt) >> 32) * sum >> 32);
}

}  // namespace evenkeel
