// How the program exits; docs/operations.md promises these.
#pragma once

namespace evenkeel {

inline constexpr int exit_done = 0;
inline constexpr int exit_failed =
    1;  ///< the file, the start or the request to the daemon was refused
inline constexpr int exit_usage = 2;        ///< the command line makes no sense
inline constexpr int exit_timeout = 3;      ///< a drain's deadline passed with requests left
inline constexpr int exit_unreachable = 5;  ///< the daemon did not answer

}  // namespace evenkeel
