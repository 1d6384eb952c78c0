// How many descriptors the process may have open.
#pragma once

#include <cstdint>
#include <optional>

namespace evenkeel {

/// The soft limit (RLIMIT_NOFILE); nothing if it cannot be read. May change while running.
std::optional<std::uint64_t> descriptor_limit();

/// Raises the soft limit to the hard one. The default of 1024 protects programs that use select(2);
/// a proxy needs two descriptors per request. Does nothing where it cannot.
void raise_descriptor_limit();

}  // namespace evenkeel
