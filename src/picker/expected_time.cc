// expected-time: the pool's scheduler places requests to models (scheduler.h). This is the picker
// of the other requests, and of what reads no body: least connections.
#include "picker/pickers.h"

namespace evenkeel {

PickerFactory pickers::expected_time(PickerOptions options) {
  return least_connections(std::move(options));
}

}  // namespace evenkeel
