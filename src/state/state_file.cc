#include "evenkeel/state/state_file.h"

#include <cerrno>
#include <cstddef>
#include <string>
#include <utility>
#include <variant>

#include "evenkeel/base/file.h"
#include "evenkeel/base/log.h"

namespace evenkeel {
namespace {

// Many backends, a million sessions in each of several pools, and the largest prefix index that is
// saved.
constexpr std::size_t max_bytes = std::size_t{512} << 20;

void warn(const std::string& path, const std::string& why) {
  log::state.warning("the state in " + path + " is not used: " + why);
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
  if (bytes.size() > max_bytes) {
    return "cannot write " + path + ": " + std::to_string(bytes.size()) + " bytes are more than " +
           std::to_string(max_bytes);
  }
  last_taken_ = taken;
  const auto error = replace_file(path, bytes);
  return error ? "cannot write " + path + ": " + error->why : "";
}

}  // namespace evenkeel
