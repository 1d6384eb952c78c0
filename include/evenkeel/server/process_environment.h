// What reading a configuration needs from this process, including certificates.
#pragma once

#include "evenkeel/config/load.h"

namespace evenkeel {

/// Environment::from_process with checks of certificates and keys.
Environment process_environment();

}  // namespace evenkeel
