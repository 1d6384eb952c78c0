// The daemon's own log (not the access log): one line per event of its life, on stderr.
//
// No call waits for the reader of stderr: lines are queued (1 MiB) and written by a thread of their
// own. When the queue is full, or stderr cannot be written, lines are dropped and counted, and the
// log says so once it is read again. At the exit, lines that are queued are written as long as a
// reader takes them.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace evenkeel::log {

enum class Level : std::uint8_t { debug, info, warning, error };

/// One event.
struct Entry {
  std::chrono::system_clock::time_point time;
  Level level;
  std::string_view message;  ///< printable; may have line ends
};

/// Writes an entry as one line, without its end.
using Format = std::string (*)(const Entry& entry);

/// Drops what is less important than this level; `info` until it is set. Thread: any.
void set_level(Level least);
Level level();
/// Sets the format of lines; null: time, level and message as text. Thread: any.
void set_format(Format format);

/// The name of a level, such as "warning".
std::string_view to_string(Level level);

/// Writes one line. Not for every request: it formats, allocates and locks. Thread: any.
void write(Level level, std::string_view message);

inline void debug(std::string_view message) { write(Level::debug, message); }
inline void info(std::string_view message) { write(Level::info, message); }
inline void warning(std::string_view message) { write(Level::warning, message); }
inline void error(std::string_view message) { write(Level::error, message); }

/// Writes lines as they are, without time and level, in order with the others. Thread: any.
void print(std::string_view lines);

/// How many lines were dropped since the start. Thread: any.
std::uint64_t dropped_lines();

}  // namespace evenkeel::log
