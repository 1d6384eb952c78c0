// Whether a backend's memory is too full for more requests.
#pragma once

#include "evenkeel/backend/shared_backend.h"
#include "evenkeel/backend/signals.h"

namespace evenkeel {

/// Used over total GPU memory, 0..1; NaN if either is unknown.
inline double memory_ratio(const LoadSample& values) {
  return values.gpu_memory_total_bytes > 0
             ? values.gpu_memory_used_bytes / values.gpu_memory_total_bytes
             : LoadSample::unknown;
}

/// True if the GPU memory or the KV cache is fuller than `guard`, 0..1; 0: no guard. An unknown
/// ratio is not too full; the poller makes a ratio unknown when it is too old.
inline bool over_memory_guard(const SharedBackend& shared, double guard) {
  if (guard <= 0) return false;
  const LoadSample values = shared.signals.values();
  return values.kv_cache_ratio > guard || memory_ratio(values) > guard;
}

}  // namespace evenkeel
