// The daemon's own log (not the access log): one line per event of its life, on stderr.
//
// No call waits for the reader of stderr: lines are queued (1 MiB) and written by a thread of their
// own. When the queue is full, or stderr cannot be written, lines are dropped and counted, and the
// log says so once it is read again. At the exit, lines that are queued are written as long as a
// reader takes them.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace evenkeel::log {

enum class Level : std::uint8_t { debug, info, warning, error };

/// The part of the daemon that a line is from. Each has a level of its own.
enum class Subsystem : std::uint8_t {
  access_log,
  admin,      ///< its listener, and what operators do there
  affinity,   ///< sessions and subsets
  discovery,  ///< what Kubernetes and other lists say of backends
  dns,        ///< names of backends
  health,     ///< checks, and the states of backends
  limits,     ///< memory, descriptors and the like run out
  listener,   ///< sockets of clients
  outlier,    ///< backends that are ejected, slow or silent
  polling,    ///< what engines report, and which engines they are
  process,    ///< start, upgrade, drain, end
  reload,
  state,  ///< the state file
  tls,
  tracing,
  usage,  ///< records for billing
};
inline constexpr std::size_t subsystem_count = 16;

/// One event.
struct Entry {
  std::chrono::system_clock::time_point time;
  Level level;
  std::string_view subsystem;
  std::string_view message;  ///< printable; may have line ends
};

/// Writes an entry as one line, without its end.
using Format = std::string (*)(const Entry& entry);

/// Drops what is less important than this level, of every subsystem; `info` until it is set.
/// Thread: any.
void set_level(Level least);
/// The last one that was set for every subsystem.
Level level();
/// Sets the format of lines; null: time, level, subsystem and message as text. Thread: any.
void set_format(Format format);

/// The name of a level, such as "warning".
std::string_view to_string(Level level);
std::optional<Level> level_of(std::string_view name);
/// The names of all levels, in the order of their values.
std::span<const std::string_view, 4> level_names();
/// The name of a subsystem, such as "access_log".
std::string_view to_string(Subsystem subsystem);
std::optional<Subsystem> subsystem_of(std::string_view name);
/// The names of all subsystems, in the order of their values.
std::span<const std::string_view, subsystem_count> subsystem_names();

/// Writes lines of one subsystem. Thread: any.
class Logger {
 public:
  constexpr explicit Logger(Subsystem subsystem) : subsystem_(subsystem) {}

  /// Drops what is less important than this level, until the next `log::set_level`.
  void set_level(Level least) const;
  Level level() const;
  /// True if a line of this level is not dropped: whether to format it at all.
  bool writes(Level level) const { return level >= this->level(); }

  /// Writes one line. Not for every request: it formats, allocates and locks.
  void write(Level level, std::string_view message) const;
  void debug(std::string_view message) const { write(Level::debug, message); }
  void info(std::string_view message) const { write(Level::info, message); }
  void warning(std::string_view message) const { write(Level::warning, message); }
  void error(std::string_view message) const { write(Level::error, message); }
  /// Writes one line of level info that no level drops: the record of what operators change.
  void record(std::string_view message) const;

 private:
  Subsystem subsystem_;
};

inline constexpr Logger access_log{Subsystem::access_log};
inline constexpr Logger admin{Subsystem::admin};
inline constexpr Logger affinity{Subsystem::affinity};
inline constexpr Logger discovery{Subsystem::discovery};
inline constexpr Logger dns{Subsystem::dns};
inline constexpr Logger health{Subsystem::health};
inline constexpr Logger limits{Subsystem::limits};
inline constexpr Logger listener{Subsystem::listener};
inline constexpr Logger outlier{Subsystem::outlier};
inline constexpr Logger polling{Subsystem::polling};
inline constexpr Logger process{Subsystem::process};
inline constexpr Logger reload{Subsystem::reload};
inline constexpr Logger state{Subsystem::state};
inline constexpr Logger tls{Subsystem::tls};
inline constexpr Logger tracing{Subsystem::tracing};
inline constexpr Logger usage{Subsystem::usage};

/// Writes lines as they are, without time and level, in order with the others. Thread: any.
void print(std::string_view lines);

/// How many lines were dropped since the start. Thread: any.
std::uint64_t dropped_lines();

}  // namespace evenkeel::log
