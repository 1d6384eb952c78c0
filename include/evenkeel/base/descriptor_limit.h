// How many descriptors the process may have open.
#pragma once

namespace evenkeel {

/// Raises the soft limit to the hard one. The default of 1024 protects programs that use select(2);
/// a proxy needs two descriptors per request. Does nothing where it cannot.
void raise_descriptor_limit();

}  // namespace evenkeel
