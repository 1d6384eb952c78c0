#include "evenkeel/config/named_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <utility>
#include <variant>

#include "evenkeel/base/ascii.h"
#include "evenkeel/base/file.h"
#include "evenkeel/config/backend_list.h"
#include "evenkeel/stats/access_log_format.h"

namespace evenkeel {
namespace {

constexpr std::size_t max_api_key_bytes = 16 * 1024;
constexpr std::size_t min_token_bytes = 16;
constexpr std::size_t max_token_bytes = 4096;
constexpr std::size_t max_page_bytes = 64UL * 1024;

Error file_error(std::string what) { return {.fault = Fault::internal, .detail = std::move(what)}; }

/// The text of a file without the white space around it.
Result<std::string> read_trimmed(const std::string& path, std::size_t max_bytes) {
  constexpr std::size_t max_padding = 64;
  auto read = read_file(path, max_bytes + max_padding);
  if (const auto* failure = std::get_if<FileError>(&read)) {
    return file_error("cannot be read: " + failure->why);
  }
  return std::string(trimmed(std::get<std::string>(read), " \t\r\n"));
}

/// 0, or why no file can be created in the folder of `path`.
int folder_error(const std::string& path) {
  std::string folder = std::filesystem::path(path).parent_path().string();
  if (folder.empty()) folder = ".";
  struct stat status{};
  if (stat(folder.c_str(), &status) != 0) return errno;
  if (!S_ISDIR(status.st_mode)) return ENOTDIR;
  return faccessat(AT_FDCWD, folder.c_str(), W_OK | X_OK, AT_EACCESS) == 0 ? 0 : errno;
}

/// The error of a local syslog's socket, which may come later.
std::optional<std::string> syslog_error(const std::string& path) {
  struct stat status{};
  if (stat(path.c_str(), &status) != 0) {
    if (errno == ENOENT) return std::nullopt;
    return std::string("cannot be reached: ") + std::strerror(errno);
  }
  if (!S_ISSOCK(status.st_mode)) return path + " is not a socket";
  return std::nullopt;
}

/// Why lines for a local syslog wait.
std::optional<std::string> absence_of_syslog(const std::string& path) {
  const auto socket = syslog_path(path);
  struct stat status{};
  if (!socket || stat(socket->c_str(), &status) == 0) return std::nullopt;
  return std::string("cannot be reached: ") + std::strerror(errno);
}

/// The error of a file to which lines are appended.
std::optional<std::string> log_file_error(const std::string& path) {
  const auto cannot_open = [](int error) {
    return std::string("cannot be opened: ") + std::strerror(error);
  };
  struct stat status{};
  if (stat(path.c_str(), &status) == 0) {
    if (S_ISDIR(status.st_mode)) return cannot_open(EISDIR);
    if (S_ISSOCK(status.st_mode)) return cannot_open(ENXIO);
    if (faccessat(AT_FDCWD, path.c_str(), W_OK, AT_EACCESS) != 0) return cannot_open(errno);
    return std::nullopt;
  }
  if (errno != ENOENT) return cannot_open(errno);
  const int error = folder_error(path);
  if (error != 0) return cannot_open(error);
  return std::nullopt;
}

std::optional<std::string> access_log_error(const std::string& path) {
  if (const auto syslog = syslog_path(path)) return syslog_error(*syslog);
  if (path == "stdout" || path == "stderr" || path == "off") return std::nullopt;
  return log_file_error(path);
}

/// The error of the file of usage records, which must be able to keep them.
std::optional<std::string> usage_file_error(const std::string& path) {
  struct stat status{};
  if (stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode))
    return "is not a regular file";
  return log_file_error(path);
}

/// The error of a file that need only be readable here: what it holds is checked where it is used.
std::optional<std::string> reading_error(const std::string& path) {
  if (faccessat(AT_FDCWD, path.c_str(), R_OK, AT_EACCESS) == 0) return std::nullopt;
  return std::string("cannot be read: ") + std::strerror(errno);
}

/// The error of the audit log, whose last record the next one continues.
std::optional<std::string> audit_file_error(const std::string& path) {
  if (auto error = usage_file_error(path)) return error;
  const bool exists = faccessat(AT_FDCWD, path.c_str(), F_OK, AT_EACCESS) == 0;
  return exists ? reading_error(path) : std::nullopt;
}

/// The state file's error: a new file replaces it, in its folder; the next start must read it.
std::optional<std::string> state_file_error(const std::string& path) {
  struct stat status{};
  if (stat(path.c_str(), &status) == 0) {
    if (!S_ISREG(status.st_mode)) return "is not a regular file";
    if (faccessat(AT_FDCWD, path.c_str(), R_OK, AT_EACCESS) != 0)
      return std::string("cannot be read: ") + std::strerror(errno);
  }
  const auto replaced = replaced_file(path);
  if (const auto* refused = std::get_if<FileError>(&replaced)) {
    return "cannot be written: " + refused->why;
  }
  const int error = folder_error(std::get<std::string>(replaced));
  if (error != 0) return std::string("cannot be written: ") + std::strerror(error);
  return std::nullopt;
}

/// A secret of 16 to 4096 bytes.
Result<std::string> read_secret(const std::string& path, std::string_view what) {
  auto secret = read_trimmed(path, max_token_bytes);
  if (!secret) return secret;
  if (secret->size() >= min_token_bytes && secret->size() <= max_token_bytes) return secret;
  return file_error("holds " + std::to_string(secret->size()) + " bytes, " + std::string(what) +
                    " has 16 to 4096");
}

/// The content of an error page.
Result<std::string> read_page(const std::string& path) {
  auto read = read_file(path, max_page_bytes);
  if (const auto* failure = std::get_if<FileError>(&read)) {
    return file_error("cannot be read: " + failure->why);
  }
  return std::get<std::string>(std::move(read));
}

std::optional<std::string> detail_of(const Result<std::string>& secret) {
  if (secret) return std::nullopt;
  return secret.error().detail;
}

}  // namespace

Result<std::string> read_api_key(const std::string& path) {
  auto key = read_trimmed(path, max_api_key_bytes);
  if (!key) return key;
  const auto visible = [](char c) { return c > ' ' && c < '\x7f'; };
  if (key->size() > max_api_key_bytes) return file_error("is larger than 16 KiB");
  if (key->empty() || !std::ranges::all_of(*key, visible)) {
    return file_error("holds no key: a key is one word of printable ASCII");
  }
  return key;
}

Result<std::string> read_admin_token(const std::string& path) {
  return read_secret(path, "a token");
}

Result<std::string> read_audit_key(const std::string& path) { return read_secret(path, "a key"); }

Result<ErrorPageTexts> read_error_pages(const Config& config) {
  ErrorPageTexts texts;
  for (const RouteConfig& route : config.routes) {
    for (const ErrorPageConfig& page : route.error_pages) {
      if (texts.contains(page.file)) continue;
      auto text = read_page(page.file);
      if (!text) {
        text.error().detail =
            "route " + route.name + ": error_pages: '" + page.file + "' " + text.error().detail;
        return std::move(text.error());
      }
      texts.emplace(page.file, std::move(*text));
    }
  }
  return texts;
}

std::optional<std::string> named_file_error(FileUse use, const std::string& path) {
  switch (use) {
    case FileUse::api_key: return detail_of(read_api_key(path));
    case FileUse::backend_list: {
      const auto list = read_backend_file(path);
      return list ? std::nullopt : std::optional(list.error().detail);
    }
    case FileUse::key_set: break;  // by those who know keys
    case FileUse::authorities: return reading_error(path);
    case FileUse::error_page: return detail_of(read_page(path));
    case FileUse::admin_token: return detail_of(read_admin_token(path));
    case FileUse::access_log: return access_log_error(path);
    case FileUse::usage: return usage_file_error(path);
    case FileUse::audit: return audit_file_error(path);
    case FileUse::audit_key: return detail_of(read_audit_key(path));
    case FileUse::syslog: return absence_of_syslog(path);
    case FileUse::state: return state_file_error(path);
  }
  return std::nullopt;
}

}  // namespace evenkeel
