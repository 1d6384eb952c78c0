#include "evenkeel/state/state_file.h"

#include <cerrno>
#include <utility>
#include <variant>

#include "evenkeel/base/file.h"
#include "evenkeel/base/log.h"

namespace evenkeel {
namespace {

constexpr std::size_t max_bytes =
    64 * 1024 * 1024;  // many backends, and the largest prefix index that is saved

void warn(const std::string& path, const std::string& why) {
  log::warning("the state in " + path + " is not used: " + why);
}

}  // namespace

std::optional<SavedState> read_state_file(const std::string& path) {
  const auto read = read_file(path, max_bytes);
  if (const auto* error = std::get_if<FileError>(&read)) {
    if (error->number != ENOENT) warn(path, error->why);
    return std::nullopt;
  }
  auto state = parse_state(std::get<std::string>(read));
  if (!state) {
    warn(path, state.error().detail);
    return std::nullopt;
  }
  return std::move(*state);
}

std::string StateFileWriter::write(const std::string& path, const std::string& bytes,
                                   Instant taken) {
  const std::lock_guard lock(mutex_);
  if (taken < last_taken_) return "";
  last_taken_ = taken;
  const auto error = replace_file(path, bytes);
  return error ? "cannot write " + path + ": " + error->why : "";
}

}  // namespace evenkeel
