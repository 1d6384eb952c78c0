// Whether loops turn: they are asked, not looked at.
#pragma once

#include <vector>

#include "evenkeel/base/loop.h"
#include "evenkeel/base/task.h"

namespace evenkeel {

/// Waits until every one of `loops` has run something that was posted to it now; false when the
/// deadline passes first. Loops that are late may still answer after that, while `own` lives.
/// Thread: of `own`.
Task<bool> all_responsive(Loop& own, std::vector<Loop*> loops, Instant deadline);

}  // namespace evenkeel
