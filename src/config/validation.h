#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "config/node.h"
#include "evenkeel/config/config.h"

namespace evenkeel::config_file {

// Reports what is wrong between keys that are each valid: duplicate names and addresses, two
// listeners on one port, routes to unknown pools, pools without a route, unreachable routes; then
// calls check_models, check_effects, check_prices and check_environment. A mistake that follows
// from a reported one is not reported.
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

// Warns of limits of cost where no model has a price, and of prices that nothing uses.
void check_prices(const Config& config, ParseContext& context);

// Warns of names of models that do not fit together: doubles, routes and fallbacks to pools that do
// not list the model, names that an earlier route takes.
void check_models(const Config& config, ParseContext& context);

// "pools", 2 -> "pools[2]".
std::string indexed(std::string_view list, std::size_t index);

// An item of a list of the file, and its path: "pools[2]".
template <class T>
struct Item {
  std::string path;
  const T& value;
};
template <class T>
std::vector<Item<T>> items_of(std::string_view list, const std::vector<T>& values) {
  std::vector<Item<T>> items;
  for (const T& value : values) items.push_back({indexed(list, items.size()), value});
  return items;
}

// The path of the address of the backend at `path`: a key of a mapping, or the backend itself.
std::string path_of_address(const ParseContext& context, const std::string& path);

// An address that the file gives.
struct UsedAddress {
  std::string path;
  std::string owner;  // "listener 'public'"
  Address address;
};
// The addresses of listeners, without those for which a mistake has been reported.
std::vector<UsedAddress> listen_addresses(const Config& config, const ParseContext& context);

// True for the addresses that stand for all of a machine's.
bool is_wildcard(const Address& address);

// "the pools are a, b, c and 7 more"
std::string list_of(std::string_view what, const std::vector<std::string>& names);

}  // namespace evenkeel::config_file
