#include "server/backend_state.h"

namespace evenkeel {

std::string_view state_of(const Backend& backend, Instant now) {
  return backend.load().avoided(now) ? "down" : "up";
}

}  // namespace evenkeel
