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
inline constexpr milliseconds max_time{24 * 3'600'000};

inline constexpr int refused_status = 403;   // where access rules stood
inline constexpr int left_out_status = 501;  // where something else stood

/// A file that cannot be read on.
struct SyntaxError {
  int line = 0;
  std::string message;
};

/// A route for the requests of one address of the file.
struct PlacedRoute {
  RouteConfig route;
  int line = 0;
  bool closes = false;  ///< stands for what routes cannot say; named after its line
  bool passes = false;  ///< leads to a pool, or did in the file
  bool fills = false;   ///< only keeps requests from the routes behind it
};

/// An address that the file listens on, and the routes of its requests.
struct Place {
  ListenerConfig listener;
  std::string owner;  ///< as a message names it: "server of line 3"
  int line = 0;
  std::vector<PlacedRoute> routes;
};

/// A configuration that grows.
class Draft {
 public:
  Config config;

  /// `listen`: the only address that counts; empty: all.
  explicit Draft(std::string_view listen = {});

  void note(int line, std::string text);
  /// Notes that a protection of the file is lost.
  void warn(int line, std::string text);
  /// Notes a statement that was not understood. Values that may be secrets are not shown. `opens`:
  /// it protected something.
  void leave_out(int line, std::span<const std::string> words, std::string_view why = {},
                 bool opens = false);

  /// Adds a pool with a name like `wanted`. Its engine is detected, unless `set_engine` names it.
  PoolConfig& add_pool(std::string_view wanted);
  static void set_engine(PoolConfig& pool, std::string_view engine);
  /// Adds a backend, unless the pool has it already. Nothing: the address is not one.
  BackendConfig* add_backend(PoolConfig& pool, std::string_view host_and_port, bool secure,
                             int line);
  /// An address that the file listens on; nothing if the text is none, or is not the chosen one.
  std::optional<Address> listened(std::string_view address, int line);
  /// Adds the listener of a place, and its routes if it is the first. False: its routes are others
  /// than those before, so that there is no configuration.
  bool serve(Place place);
  /// False if there are too many routes: none is added any more.
  bool add_route(RouteConfig route, int line);

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

  void add_listener(ListenerConfig listener, int line);
  void add_note(int line, std::string text, bool opens);

  std::vector<ImportNote> notes_;
  std::optional<Address> chosen_;
  std::string chosen_text_;        // as the user wrote it
  std::set<std::string> listens_;  // the addresses of the file
  std::optional<Place> first_;
  std::optional<ImportNote> refusal_;
  Names listeners_;
  Names pools_;
  Names routes_;
  std::set<std::string> matches_;  // of the routes
};

/// True if a file with this route passes the check.
bool passes_check(RouteConfig route);

/// A response of evenkeel's own with that status.
RouteConfig answer(RouteMatch match, int status);

/// "weight=3" is "3" for the key "weight="; nothing for another key.
std::optional<std::string_view> value_of(std::string_view word, std::string_view key);

/// All of the text as a whole number.
std::optional<std::uint32_t> parse_count(std::string_view text);

/// "1m30s", "500ms", "30": without a unit, in units of `plain`. 0, or 1 ms to 24 h; longer times
/// are cut.
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
