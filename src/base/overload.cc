#include "evenkeel/base/overload.h"

namespace evenkeel {

const char* to_string(ShedReason reason) {
  switch (reason) {
    case ShedReason::max_connections: return "max_connections";
    case ShedReason::descriptors: return "descriptors";
    case ShedReason::memory: return "memory";
  }
  return "memory";
}

}  // namespace evenkeel
