// KEDA's messages of external scalers.
#pragma once

#include <scaler_proto/external_scaler.pb.h>
