#include "evenkeel/base/attempt_list.h"

namespace evenkeel {

const char* to_string(PickReason reason) {
  switch (reason) {
    case PickReason::picked: return "picked";
    case PickReason::session: return "session";
    case PickReason::waited: return "waited";
  }
  return "picked";
}

}  // namespace evenkeel
