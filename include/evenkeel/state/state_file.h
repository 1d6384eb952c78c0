// The file in which a daemon keeps its state for the next one (`state_file`).
#pragma once

#include <mutex>
#include <optional>
#include <string>

#include "evenkeel/base/clock.h"
#include "evenkeel/state/saved_state.h"

namespace evenkeel {

/// Blocks. Nothing: there is no file, or, with a warning in the log, one that cannot be used.
/// Thread: any.
std::optional<SavedState> read_state_file(const std::string& path);

/// Writes the state file. An older state never replaces a newer one, in whichever order they are
/// written: the end of a daemon does not wait for a write that another thread has not begun.
///
/// Thread: any.
class StateFileWriter {
 public:
  /// Writes the state of that moment. Blocks. Returns why it was not written; empty: it was, or a
  /// newer one had been.
  std::string write(const std::string& path, const std::string& bytes, Instant taken);

 private:
  std::mutex mutex_;
  Instant last_taken_ = Instant::min();
};

}  // namespace evenkeel
