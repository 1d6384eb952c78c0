// Checks that loops make progress, by posting to them.
#pragma once

#include <vector>

#include "evenkeel/base/loop.h"
#include "evenkeel/base/task.h"

namespace evenkeel {

/// Waits until every one of `loops` has run something posted to it now; false when the deadline
/// passes first. Late loops may respond after that, so `own` must outlive them. Thread: of `own`.
Task<bool> all_responsive(Loop& own, std::vector<Loop*> loops, Instant deadline);

}  // namespace evenkeel
