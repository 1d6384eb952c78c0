#pragma once

#include <cstdio>
#include <cstdlib>

/// Ends the process where libFuzzer and ctest both see it, in every build.
inline void require(bool holds, const char* promise) {
  if (holds) return;
  std::fprintf(stderr, "broken promise: %s\n", promise);
  std::abort();
}
