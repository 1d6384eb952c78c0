#pragma once

#include "config/node.h"
#include "evenkeel/config/config.h"

namespace evenkeel::config_file {

// Fills in what the variables of OpenTelemetry (OTEL_EXPORTER_OTLP_ENDPOINT and others) say of
// traces. A key that the file has is left as it is. Reports variables that cannot be used.
void read_otel_variables(TracingConfig& tracing, ParseContext& context);

}  // namespace evenkeel::config_file
