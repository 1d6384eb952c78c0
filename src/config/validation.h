#pragma once

#include "config/node.h"
#include "evenkeel/config/config.h"

namespace evenkeel::config_file {

// Reports what is wrong between keys that are each right by themselves: names and addresses given
// twice, two listeners on one port, routes to no pool and pools that no route leads to, routes that
// are never reached, host names without an address, certificates
// that cannot be used. What a reported mistake already explains is
// left alone.
void validate_config(const Config& config, ParseContext& context);

// Whether every request that the second takes is taken by the first.
bool covers(const RouteMatch& first, const RouteMatch& second);

}  // namespace evenkeel::config_file
