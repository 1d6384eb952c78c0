// What all formats have in common: the configuration as it grows, and what is left out of it.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "evenkeel/import/import.h"

namespace evenkeel::import {

/// The most that is read of a file and kept: no sensible one has more, and some of it is compared
/// with each other.
inline constexpr std::size_t max_statements = 200'000;
inline constexpr std::size_t max_listeners = 1'000;
inline constexpr std::size_t max_pools = 2'000;
inline constexpr std::size_t max_backends = 10'000;  // of a pool
inline constexpr std::size_t max_routes = 10'000;
inline constexpr std::size_t max_notes = 1'000;

/// A file that cannot be read on.
struct SyntaxError {
  int line = 0;
  std::string message;
};

/// A configuration that grows.
class Draft {
 public:
  Config config;

  Draft() { config.listeners.clear(); }

  void note(int line, std::string text);
  /// Notes a statement that was not understood. What follows a word such as `password` is not
  /// shown.
  void leave_out(int line, std::span<const std::string> words, std::string_view why = {});

  /// Adds a pool with a name like `wanted`. Its engine is detected, unless `set_engine` names it.
  PoolConfig& add_pool(std::string_view wanted);
  static void set_engine(PoolConfig& pool, std::string_view engine);
  /// Adds a backend, unless the pool has it already. Nothing: the address is not one.
  BackendConfig* add_backend(PoolConfig& pool, std::string_view host_and_port, bool secure,
                             int line);
  /// The listener at an address; added if there is none. Null: the text is no address.
  ListenerConfig* listener_at(std::string_view address, int line);
  /// False if there are too many routes: none is added any more.
  bool add_route(RouteMatch match, std::vector<RouteTarget> targets, int line);

  /// The configuration with its defaults by engine, or why there is none.
  Import finished(std::string_view nothing_found) &&;

 private:
  /// Names that differ, each like the wanted one.
  class Names {
   public:
    std::string unique(const std::string& wanted);

   private:
    std::set<std::string> taken_;
    std::map<std::string, int> last_;  // number behind a name
  };

  std::vector<ImportNote> notes_;
  Names listeners_;
  Names pools_;
  std::set<std::string> matches_;  // of the routes
};

/// "weight=3" is "3" for the key "weight="; nothing for another key.
std::optional<std::string_view> value_of(std::string_view word, std::string_view key);

/// All of the text as a whole number.
std::optional<std::uint32_t> parse_count(std::string_view text);

/// "1m30s", "500ms", "30": without a unit, in units of `plain`. 1 ms to 24 h; longer times are cut.
std::optional<milliseconds> parse_time(std::string_view text, milliseconds plain);

/// "10m", "512k", "1g" in bytes.
std::optional<std::uint64_t> parse_size(std::string_view text);

/// "api.example.com" or "*.example.com" in lower case; nothing if `match.host` cannot say it.
std::optional<std::string> host_pattern(std::string_view host);

/// The name of a header field or cookie in lower case; nothing if it is not one.
std::optional<std::string> field_name(std::string_view name);

/// The path that matches this one alone, or with `below` everything below it; nothing if it has a
/// star or does not begin with a slash.
std::optional<std::string> path_pattern(std::string_view path, bool below);

}  // namespace evenkeel::import
