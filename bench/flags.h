#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace evenkeel::bench {

// The `--name value` arguments of a bench program. A missing value, a bad number and (in
// reject_unknown) a name that was not queried end the program with status 2 and a line on stderr.
class Flags {
 public:
  Flags(int argument_count, char** arguments);

  std::string text(std::string_view name, std::string_view fallback);
  std::uint64_t number(std::string_view name, std::uint64_t fallback);
  double real(std::string_view name, double fallback);
  std::vector<std::string> all(std::string_view name);  // a flag that may be repeated

  // Call it after the last query.
  void reject_unknown() const;

 private:
  std::multimap<std::string, std::string, std::less<>> values_;
  std::set<std::string, std::less<>> queried_;
};

[[noreturn]] void exit_with_usage_error(std::string_view what);

}  // namespace evenkeel::bench
