#pragma once

#include <cstdio>
#include <cstdlib>

/// Aborts in every build if the condition is false, so that libFuzzer and ctest both notice.
inline void require(bool holds, const char* promise) {
  if (holds) return;
  std::fprintf(stderr, "broken promise: %s\n", promise);
  std::abort();
}
