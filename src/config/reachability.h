#pragma once

#include <cstddef>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "evenkeel/config/config.h"

namespace evenkeel::config_file {

// True if `first` matches every request that `second` matches.
bool covers(const RouteMatch& first, const RouteMatch& second);

// Finds the route that hides a later one, without comparing each pair: paths are a trie, and below
// a path the routes are found by host, gRPC call, a trie of header fields, and model.
class RouteIndex {
 public:
  // Adds a route, which outlives the index. Routes are added in the order of the file.
  void add(std::size_t route, const RouteMatch& match);

  // The first of the added routes that matches every request that `match` does. Globs that begin
  // alike are compared one by one; after so many of them in all, nothing is found any more.
  std::optional<std::size_t> first_cover(const RouteMatch& match);
  static constexpr std::size_t max_comparisons = 2'000'000;

 private:
  struct Entry {
    std::size_t route;
    const RouteMatch* match;
  };
  // The routes with the header fields on the way here from a root, in their order.
  struct FieldNode {
    std::unordered_map<std::string, FieldNode*> children;  // by name and value
    std::vector<Entry> entries;                            // of routes for any model
    std::unordered_map<std::string, std::vector<Entry>> by_model;
    std::unordered_map<std::string, std::vector<Entry>> by_model_prefix;  // of a glob, to its star
  };
  using ByHostAndCall = std::unordered_map<std::string, FieldNode*>;  // those of `place_key`
  struct PathNode {
    std::unordered_map<std::string_view, PathNode*> children;  // by segment, "*" among them
    ByHostAndCall here;                                        // the path ends here
    ByHostAndCall below;                                       // the path ends with "**" here
  };
  class Search;

  std::deque<PathNode> nodes_{1};  // the first one is the root
  std::deque<FieldNode> field_nodes_;
  std::size_t comparisons_left_ = max_comparisons;  // of models
};

}  // namespace evenkeel::config_file
