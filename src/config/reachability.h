#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "evenkeel/config/config.h"

namespace evenkeel::config_file {

// True if `first` matches every request that `second` matches.
bool covers(const RouteMatch& first, const RouteMatch& second);

// True if the `path` of a match takes all paths that another one does; empty: any path.
bool path_covers(const std::string& first, const std::string& second);

// Finds the route that hides a later one, without comparing each pair: a route is found by one
// thing that it asks for and that few others do, such as a header field or a segment of its path.
class CoverIndex {
 public:
  // Adds a route, which outlives the index. Routes are added in the order of the file.
  void add(std::size_t route, const RouteMatch& match);

  // The first of the added routes that matches every request that `match` does. Routes that ask for
  // the same are compared one by one; after this many comparisons nothing is found any more.
  std::optional<std::size_t> first_cover(const RouteMatch& match);
  static constexpr std::size_t max_comparisons = 2'000'000;

 private:
  struct Entry {
    std::size_t route;
    const RouteMatch* match;
  };

  std::unordered_map<std::string, std::vector<Entry>> routes_;
  std::size_t comparisons_left_ = max_comparisons;
};

}  // namespace evenkeel::config_file
