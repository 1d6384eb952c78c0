// What reading a configuration needs from this process, certificates included.
#pragma once

#include "evenkeel/config/load.h"

namespace evenkeel {

/// Environment::from_process, which also looks at certificates and keys.
Environment process_environment();

}  // namespace evenkeel
