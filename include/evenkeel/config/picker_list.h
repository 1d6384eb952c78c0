// The one list of pickers. A new picker is a line here and a file in src/picker.
#pragma once

/// Name in the file, and the function of namespace pickers (src/picker) that makes its factory; in
/// the order of the configuration reference.
#define EVENKEEL_PICKERS(PICKER)                 \
  PICKER("round-robin", round_robin)             \
  PICKER("weighted", weighted)                   \
  PICKER("least-connections", least_connections) \
  PICKER("least-latency", least_latency)         \
  PICKER("queue-depth", queue_depth)             \
  PICKER("gpu", gpu)                             \
  PICKER("consistent-hash", consistent_hash)     \
  PICKER("prefix-affinity", prefix_affinity)     \
  PICKER("expected-time", expected_time)
