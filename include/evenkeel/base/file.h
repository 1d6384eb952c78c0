// Small files that are read whole: keys, certificates, tokens.
#pragma once

#include <cstddef>
#include <string>
#include <variant>

namespace evenkeel {

/// Why a file could not be read.
struct FileError {
  int number = 0;   ///< errno; 0: the system has nothing to say of it
  std::string why;  ///< for people: "No such file or directory", "it is not a file"
};

/// The bytes of a regular file. Never waits for a writer: a pipe or a device is a failure, and so
/// is a file of more than `most` bytes.
std::variant<std::string, FileError> read_file(const std::string& path, std::size_t max_size);

}  // namespace evenkeel
