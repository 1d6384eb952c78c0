// A marketing mail goes out, and everybody comes at once.
#pragma once

#include "evenkeel/demo/demo.h"

namespace evenkeel {

/// The scenario `blast` of run_demo; its exit code.
int run_blast(const DemoOptions& options);

}  // namespace evenkeel
