// The factories of all pickers in picker_list.h.
#pragma once

#include "evenkeel/config/picker_list.h"
#include "evenkeel/picker/picker.h"

namespace evenkeel::pickers {

#define EVENKEEL_DECLARE(name, factory) PickerFactory factory(PickerOptions options);
EVENKEEL_PICKERS(EVENKEEL_DECLARE)
#undef EVENKEEL_DECLARE

}  // namespace evenkeel::pickers
