// A server of any other make that implements the KServe v2 protocol.
#include "inference/engines/engines.h"

namespace evenkeel {

const Engine kserve_engine{
    .name = "kserve",
    .health = kserve_health,
    .metrics = {.any_series = true},
};

}  // namespace evenkeel
