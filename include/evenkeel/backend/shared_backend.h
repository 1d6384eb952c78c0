// What all workers, and all versions of the file, share of one backend.
#pragma once

#include "evenkeel/backend/backend_findings.h"
#include "evenkeel/backend/backend_state.h"
#include "evenkeel/backend/backend_stats.h"
#include "evenkeel/backend/signals.h"
#include "evenkeel/backend/slots.h"

namespace evenkeel {

/// The address of this identifies the backend for as long as any version has it.
struct SharedBackend {
  /// Requests that failed lately and that pickers count as if they were in flight. 0 on a backend
  /// that does not serve: its trials decide.
  double failure_penalty(Instant now) const {
    return state.serving() ? stats.recent_failures(now) : 0;
  }

  // A pick reads the cache line of the state, which is rarely written, and the one of the slots,
  // where the averages follow.
  BackendState state;
  alignas(64) Slots slots;
  BackendStats stats;
  Signals signals;
  BackendFindings findings;
};

}  // namespace evenkeel
