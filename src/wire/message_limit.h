#pragma once

#include <cstdint>

namespace evenkeel {

/// The limits of a listener on one message, by their keys in the configuration.
enum class MessageLimit : std::uint8_t { none, header, header_fields, uri, body };

}  // namespace evenkeel
