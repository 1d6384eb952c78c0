// A server of any other make that implements the KServe v2 protocol.
#include "inference/engines/engines.h"

namespace evenkeel {

const Engine kserve_engine{
    .name = "kserve",
    .health = {.path = "/v2/health/ready",
               .listing = ModelListing::kserve,
               .token = TokenProbe::none,
               .not_ready_status = 400,
               .path_covers_all_models = true,
               .serves_kserve_grpc = true},
    .metrics = {.any_series = true},
};

}  // namespace evenkeel
