// A program whose debug information split_debug_info() moves, as it does for the release binary.
#include <cstdio>

int main() {
  std::puts("runs");
  return 0;
}
