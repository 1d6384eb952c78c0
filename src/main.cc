// Arguments to a verb.
#include "evenkeel/cli/command_line.h"

#ifndef EVENKEEL_VERSION
#define EVENKEEL_VERSION "unknown"
#endif

int main(int argc, char** argv) {
  return evenkeel::run_command_line({argv + 1, argv + argc}, EVENKEEL_VERSION);
}
