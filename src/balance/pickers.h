// The pickers, one line each: name, maker. In the order of the configuration reference.
#pragma once

#include "evenkeel/balance/picker.h"

#define EVENKEEL_PICKERS(PICKER)                 \
  PICKER("round-robin", round_robin)             \
  PICKER("weighted", weighted)                   \
  PICKER("least-connections", least_connections) \
  PICKER("least-latency", least_latency)         \
  PICKER("queue-depth", queue_depth)             \
  PICKER("gpu", gpu)                             \
  PICKER("consistent-hash", consistent_hash)

namespace evenkeel::pickers {

#define EVENKEEL_DECLARE(name, factory) PickerFactory factory(PickerOptions options);
EVENKEEL_PICKERS(EVENKEEL_DECLARE)
#undef EVENKEEL_DECLARE

}  // namespace evenkeel::pickers
