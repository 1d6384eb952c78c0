// A sudden jump of traffic, and the standby backends that absorb it.
#pragma once

#include "evenkeel/base/result.h"
#include "evenkeel/demo/demo.h"

namespace evenkeel {

/// The scenario `blast` of run_demo. Returns the exit code; an error says why it ended early.
/// REQUIRES: the picker exists.
Result<int> run_blast(const DemoOptions& options);

}  // namespace evenkeel
