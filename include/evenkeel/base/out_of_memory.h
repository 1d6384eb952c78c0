// What happens when an allocation fails.
#pragma once

namespace evenkeel {

/// Writes a line to the standard error and ends the process with status 1, without destructors:
/// the supervisor starts the next one. `limits.memory` keeps a daemon from getting here. Thread:
/// any.
[[noreturn]] void out_of_memory() noexcept;

/// Lets an `operator new` that fails call `out_of_memory` from now on. Thread: one, at start-up.
void exit_when_out_of_memory();

}  // namespace evenkeel
