#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "evenkeel/config/load.h"

namespace evenkeel {

// An environment that a test holds: these variables, and every name resolves but these.
struct TestEnvironment {
  std::map<std::string, std::string> variables;
  std::set<std::string> unknown_hosts;

  Environment environment() const {
    Environment environment;
    // Copies: what is returned may outlive this.
    environment.variable = [known =
                                variables](const std::string& name) -> std::optional<std::string> {
      const auto found = known.find(name);
      if (found == known.end()) return std::nullopt;
      return found->second;
    };
    environment.resolve_error =
        [unknown = unknown_hosts](const std::string& host) -> std::optional<std::string> {
      if (unknown.count(host) == 0) return std::nullopt;
      return "no such host";
    };
    return environment;
  }

  LoadResult read(const std::string& text) const {
    return read_config(text, "test.yaml", environment());
  }
};

inline LoadResult read(const std::string& text) { return TestEnvironment{}.read(text); }

// "line:column path: message; help" of each problem.
inline std::vector<std::string> lines_of(const std::vector<Problem>& problems) {
  std::vector<std::string> lines;
  for (const Problem& problem : problems) {
    std::string line = std::to_string(problem.line) + ":" + std::to_string(problem.column) + " " +
                       problem.path + ": " + problem.message;
    if (!problem.help.empty()) line += "; " + problem.help;
    lines.push_back(line);
  }
  return lines;
}

inline std::vector<std::string> problems_of(const std::string& text) {
  return lines_of(read(text).problems);
}

inline std::vector<std::string> warnings_of(const std::string& text) {
  return lines_of(read(text).warnings);
}

}  // namespace evenkeel
