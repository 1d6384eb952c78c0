// Reads small files whole: keys, certificates, tokens.
#pragma once

#include <cstddef>
#include <string>
#include <variant>

namespace evenkeel {

/// Why a file could not be read.
struct FileError {
  int number = 0;   ///< errno; 0: no system call failed
  std::string why;  ///< such as "No such file or directory" or "not a regular file"
};

/// The bytes of a regular file. A pipe or a device is an error, since reading it could block; so is
/// a file of more than `max_size` bytes.
std::variant<std::string, FileError> read_file(const std::string& path, std::size_t max_size);

}  // namespace evenkeel
