// When a simulated server sends the head of a stream.
#pragma once

#include <cstdint>

namespace evenkeel {

/// Real servers differ: docs/simulator.md.
enum class StreamHead : std::uint8_t {
  as_engine,         ///< as the real engine does
  early,             ///< at once, before any work on the request
  with_first_token,  ///< with the first token
};

}  // namespace evenkeel
