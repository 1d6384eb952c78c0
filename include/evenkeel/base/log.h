// The daemon's own log (not the access log): one line per event of its life, on stderr.
#pragma once

#include <string_view>

namespace evenkeel::log {

enum class Level { debug, info, warning, error };

/// Sets the lowest level that is written. Thread: any.
void set_level(Level lowest);

/// Writes one line. Never on the way of a request. Thread: any.
void write(Level level, std::string_view message);

inline void debug(std::string_view message) { write(Level::debug, message); }
inline void info(std::string_view message) { write(Level::info, message); }
inline void warning(std::string_view message) { write(Level::warning, message); }
inline void error(std::string_view message) { write(Level::error, message); }

}  // namespace evenkeel::log
