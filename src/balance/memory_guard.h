// How full a backend's memories are, and whether that is too full to be given more.
#pragma once

#include "evenkeel/balance/load.h"
#include "evenkeel/balance/signals.h"

namespace evenkeel {

/// VRAM in use over all there is, NaN where either is unknown.
inline double memory_ratio(const LoadSample& values) {
  return values.gpu_memory_total_bytes > 0
             ? values.gpu_memory_used_bytes / values.gpu_memory_total_bytes
             : LoadSample::unknown;
}

/// Its VRAM or its KV cache is fuller than `guard`. What is unknown is not too full: whoever polls
/// makes a value unknown when it is too old to go by.
inline bool over_memory_guard(const Load& load, double guard) {
  const LoadSample values = load.signals().values();
  return values.kv_cache_ratio > guard || memory_ratio(values) > guard;
}

}  // namespace evenkeel
