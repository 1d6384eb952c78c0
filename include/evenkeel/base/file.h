// Reads and writes small files whole: keys, certificates, tokens, saved state.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

namespace evenkeel {

/// Why a file could not be read or written.
struct FileError {
  int number = 0;   ///< errno; 0: no system call failed
  std::string why;  ///< such as "No such file or directory" or "not a regular file"
};

/// The bytes of a regular file. A pipe or a device is an error, since reading it could block; so is
/// a file of more than `max_size` bytes.
std::variant<std::string, FileError> read_file(const std::string& path, std::size_t max_size);

/// Writes a new file with mode 0600 and renames it to `path`: readers see the old text or the new
/// one, whatever fails. Does not wait for the disk, so a power failure may leave a file that is not
/// complete. Anything but a regular file at `path` is an error; a symbolic link is followed as
/// `replaced_file` says. Nothing: done.
std::optional<FileError> replace_file(const std::string& path, std::string_view text);

/// Writes all of the text. Returns 0, or errno of the write that failed.
int write_all(int fd, std::string_view text);

/// True if the open file is the one that is at the path now: it was not moved, removed or replaced.
bool is_at(const std::string& path, int fd);

/// The file that `replace_file` writes: where symbolic links lead, also to one that does not exist
/// yet. Links of another user than this one and root are an error: with one, a user who may write
/// to the folder could have the text written elsewhere.
std::variant<std::string, FileError> replaced_file(std::string path);

}  // namespace evenkeel
