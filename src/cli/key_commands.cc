#include "cli/key_commands.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>
#include <variant>

#include "evenkeel/base/ascii.h"
#include "evenkeel/base/exit_codes.h"
#include "evenkeel/base/file.h"
#include "evenkeel/base/owned_fd.h"
#include "evenkeel/base/rfc3339.h"
#include "evenkeel/base/text_table.h"
#include "evenkeel/json/value.h"
#include "evenkeel/net/sha256.h"
#include "evenkeel/tenancy/key_table.h"

namespace evenkeel {
namespace {

CommandOutput failed(std::string_view file, std::string_view why) {
  return {exit_failed, {}, fmt::format("{}: {}\n", file, why)};
}

/// A file of keys that no other `evenkeel key` edits meanwhile.
class LockedFile {
 public:
  /// `creates`: a file that is not there is made, for this user alone. Otherwise `error` says why
  /// it cannot be edited.
  LockedFile(std::string path, bool creates) {
    auto resolved = replaced_file(std::move(path));
    if (auto* refused = std::get_if<FileError>(&resolved)) {
      error_ = refused->why;
      return;
    }
    path_ = std::move(std::get<std::string>(resolved));
    constexpr mode_t own = 0600;
    while (error_.empty()) {
      const int flags = O_RDWR | O_CLOEXEC | O_NONBLOCK | (creates ? O_CREAT : 0);
      lock_ = OwnedFd(open(path_.c_str(), flags, own));
      if (lock_.get() < 0 || flock(lock_.get(), LOCK_EX) != 0 || fstat(lock_.get(), &facts_) != 0) {
        fail();
      } else if (!S_ISREG(facts_.st_mode)) {
        error_ = "not a regular file";
      } else if (is_still_there()) {
        break;
      }
    }
    if (!error_.empty()) return;
    auto read = read_file(path_, max_key_file_bytes);
    if (auto* failure = std::get_if<FileError>(&read)) {
      error_ = failure->why;
    } else {
      text_ = std::move(std::get<std::string>(read));
    }
  }

  /// Why the file cannot be edited; empty if it can.
  const std::string& error() const { return error_; }
  const std::string& text() const { return text_; }

  /// Readers see the old text or the new one. Owner and mode stay. Returns why it failed.
  std::string replace(std::string_view text) {
    std::string fresh = path_ + ".XXXXXX";
    const OwnedFd file(mkostemp(fresh.data(), O_CLOEXEC));
    if (file.get() < 0) return std::strerror(errno);
    int error = write_all(file.get(), text);
    struct stat own{};
    const auto check = [&error](int result) {
      if (error == 0 && result != 0) error = errno;
    };
    if (error == 0) check(fstat(file.get(), &own));
    const bool same_owner = own.st_uid == facts_.st_uid && own.st_gid == facts_.st_gid;
    if (error == 0 && !same_owner) check(fchown(file.get(), facts_.st_uid, facts_.st_gid));
    if (error == 0) check(fchmod(file.get(), facts_.st_mode & 07777U));
    if (error == 0) check(fsync(file.get()));
    if (error == 0) check(std::rename(fresh.c_str(), path_.c_str()));
    if (error == 0) return {};
    unlink(fresh.c_str());
    return std::strerror(error);
  }

 private:
  void fail() { error_ = std::strerror(errno); }
  /// False if another one has replaced it since it was opened.
  bool is_still_there() {
    struct stat present{};
    return stat(path_.c_str(), &present) == 0 && present.st_dev == facts_.st_dev &&
           present.st_ino == facts_.st_ino;
  }

  std::string path_;
  OwnedFd lock_;
  struct stat facts_{};
  std::string text_;
  std::string error_;
};

std::string problems_text(const std::string& file, const std::vector<FileProblem>& problems) {
  std::string text;
  for (const FileProblem& each : problems) {
    text += file;
    if (each.line > 0) text += fmt::format(":{}:{}", each.line, each.column);
    text += ": error: " + each.message;
    if (!each.help.empty()) text += "; " + each.help;
    text += '\n';
  }
  return text;
}

/// base64url without padding.
std::string base64url(std::span<const std::uint8_t> bytes) {
  constexpr std::string_view digits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
  std::string text;
  std::uint32_t bits = 0;
  int count = 0;
  for (const std::uint8_t byte : bytes) {
    bits = bits << 8U | byte;
    for (count += 8; count >= 6; count -= 6) text += digits[(bits >> (count - 6)) & 63U];
  }
  if (count > 0) text += digits[(bits << (6 - count)) & 63U];
  return text;
}

/// 256 bits of the kernel's. Empty: there are none.
std::string random_key() {
  std::array<std::uint8_t, 32> bytes{};
  if (getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) return {};
  return "ek_" + base64url(bytes);
}

bool has_expired(const KeyLine& key) {
  return key.expires && std::chrono::system_clock::now() >= *key.expires;
}

JsonValue document_of(const KeyLine& key) {
  JsonValue::List models;
  for (const std::string& model : key.models) models.emplace_back(model);
  JsonValue expires;
  if (key.expires) expires = rfc3339(*key.expires);
  return JsonValue::Object{{"id", key_id_of(key.hash)},
                           {"tenant", key.tenant},
                           {"name", key.name.empty() ? JsonValue() : JsonValue(key.name)},
                           {"models", std::move(models)},
                           {"expires", std::move(expires)},
                           {"expired", has_expired(key)}};
}

std::string table_of(const std::vector<KeyLine>& keys, std::optional<std::size_t> width) {
  TextTable table(
      {{"ID"}, {"TENANT"}, {"NAME", {}, 2}, {"MODELS", {}, 3}, {"EXPIRES", {}, 1}, {"STATE"}});
  for (const KeyLine& key : keys) {
    table.add({key_id_of(key.hash), key.tenant, key.name.empty() ? "-" : key.name,
               key.models.empty() ? "all" : fmt::format("{}", fmt::join(key.models, ",")),
               key.expires ? rfc3339(*key.expires) : "never",
               has_expired(key) ? "expired" : "valid"});
  }
  std::string text;
  for (const std::string& line : table.lines(width)) text.append(line).append("\n");
  return text;
}

std::string without_line(std::string_view text, int number) {
  std::size_t begin = 0;
  for (int line = 1; line < number; ++line) begin = text.find('\n', begin) + 1;
  const std::size_t end = std::min(text.find('\n', begin), text.size() - 1) + 1;
  return std::string(text.substr(0, begin)).append(text.substr(end));
}

}  // namespace

CommandOutput create_key(const std::string& file, const NewKey& wanted) {
  LockedFile locked(file, true);
  if (!locked.error().empty()) return failed(file, "cannot be written: " + locked.error());
  const KeyFileText known = read_keys(locked.text());
  if (!known.problems.empty()) {
    return {exit_failed,
            {},
            problems_text(file, known.problems) + "no key was made: correct the file first\n"};
  }
  const std::string key = random_key();
  if (key.empty()) return failed(file, "no key was made: the kernel has no random numbers");
  const KeyLine line{.hash = sha256(key),
                     .tenant = wanted.tenant,
                     .name = wanted.name,
                     .models = wanted.models,
                     .expires = wanted.expires};
  std::string text = locked.text();
  if (!text.empty() && !text.ends_with('\n')) text += '\n';
  text += key_line_text(line) + '\n';
  // What the options say could still make a line that no daemon takes.
  if (const auto checked = read_keys(text); !checked.problems.empty())
    return failed(file, "no key was made: " + checked.problems.front().message);
  if (const std::string why = locked.replace(text); !why.empty())
    return failed(file, "no key was made, the file cannot be written: " + why);
  return {exit_done, key + '\n',
          fmt::format("added key {} of tenant {} to {}; it is shown only this once\n",
                      key_id_of(line.hash), line.tenant, file)};
}

CommandOutput list_keys(const std::string& file, bool json, std::optional<std::size_t> width) {
  const auto read = read_file(file, max_key_file_bytes);
  if (const auto* failure = std::get_if<FileError>(&read))
    return failed(file, "cannot be read: " + failure->why);
  const KeyFileText known = read_keys(std::get<std::string>(read));
  CommandOutput output{.exit_code = known.problems.empty() ? exit_done : exit_failed,
                       .out = {},
                       .err = problems_text(file, known.problems)};
  if (json) {
    JsonValue::List keys;
    for (const KeyLine& key : known.keys) keys.push_back(document_of(key));
    output.out = json_text(JsonValue(std::move(keys))) + '\n';
  } else {
    output.out = table_of(known.keys, width);
  }
  return output;
}

CommandOutput revoke_key(const std::string& file, std::string_view id) {
  constexpr std::size_t min_digits = 8;
  const std::string wanted = lower_case(id);
  if (wanted.size() < min_digits) {
    return failed(file, fmt::format("'{}' is not the id of a key, which has {} hexadecimal digits; "
                                    "`evenkeel key list --file {}` shows them",
                                    printable(id), min_digits, file));
  }
  LockedFile locked(file, false);
  if (!locked.error().empty()) return failed(file, "cannot be changed: " + locked.error());
  const KeyFileText known = read_keys(locked.text());
  std::vector<const KeyLine*> found;
  for (const KeyLine& key : known.keys) {
    if (hexadecimal(key.hash).starts_with(wanted)) found.push_back(&key);
  }
  if (found.empty()) {
    return failed(file, fmt::format("no key has the id '{}'; `evenkeel key list --file {}` shows "
                                    "them",
                                    printable(id), file));
  }
  if (found.size() > 1) {
    return failed(file, fmt::format("{} keys have the id '{}'; give more digits of the hash",
                                    found.size(), printable(id)));
  }
  const KeyLine& key = *found.front();
  const std::string why = locked.replace(without_line(locked.text(), key.number));
  if (!why.empty()) return failed(file, "the key still counts, the file cannot be written: " + why);
  std::string done = fmt::format("revoked key {} of tenant {}{}\n", key_id_of(key.hash), key.tenant,
                                 key.name.empty() ? "" : " (" + key.name + ")");
  if (known.problems.empty()) return {exit_done, std::move(done), {}};
  return {exit_failed, std::move(done),
          problems_text(file, known.problems) +
              "the key still counts in a running daemon, which keeps the keys that it has until "
              "the file has no mistake\n"};
}

}  // namespace evenkeel
