// A sudden jump of traffic, and the standby backends that absorb it.
#pragma once

#include "evenkeel/demo/demo.h"

namespace evenkeel {

/// The scenario `blast` of run_demo. Returns the exit code. REQUIRES: the picker exists.
int run_blast(const DemoOptions& options);

}  // namespace evenkeel
