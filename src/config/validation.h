#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "config/node.h"
#include "evenkeel/config/config.h"

namespace evenkeel::config_file {

// Reports what is wrong between keys that are each valid: duplicate names and addresses, two
// listeners on one port, routes to unknown pools, pools without a route, unreachable routes; then
// calls check_models, check_effects and check_environment. A mistake that follows from a reported
// one is not reported.
void validate_config(const Config& config, ParseContext& context);

// Reports what does not fit this machine: host names without an address, backends that are our own
// listeners, files that cannot be used, indexes that do not fit into memory. context.environment
// limits what is looked at.
void check_environment(const Config& config, ParseContext& context);

// Reports splits of which no part would get a request, and parts of pools that have no such
// backends.
void check_splits(const Config& config, ParseContext& context);

// Warns of keys that have no effect beside the others, and of routes for gRPC to pools that do not
// speak it.
void check_effects(const Config& config, ParseContext& context);

// Warns of names of models that do not fit together: doubles, routes and fallbacks to pools that do
// not list the model, names that an earlier route takes.
void check_models(const Config& config, ParseContext& context);

// "pools", 2 -> "pools[2]".
std::string indexed(std::string_view list, std::size_t index);

// The path of a backend's address: a key of a mapping, or the backend itself.
std::string path_of_backend(const ParseContext& context, std::size_t pool, std::size_t backend);

}  // namespace evenkeel::config_file
