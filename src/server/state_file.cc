#include "server/state_file.h"

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

void warn_damaged(const std::string& path) {
  log::warning("the state in " + path + " is damaged: only its beginning, which is whole, is used");
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
  if (state->damaged) warn_damaged(path);
  if (state->skipped_lines > 0) {
    log::warning("of the state in " + path + ", " + std::to_string(state->skipped_lines) +
                 " malformed lines are not used");
  }
  return std::move(*state);
}

std::string StateFileWriter::write(const std::string& path, const std::string& text,
                                   Instant taken) {
  const std::lock_guard lock(mutex_);
  if (taken < last_taken_) return "";
  last_taken_ = taken;
  const auto error = replace_file(path, text);
  return error ? "cannot write " + path + ": " + error->why : "";
}

}  // namespace evenkeel
