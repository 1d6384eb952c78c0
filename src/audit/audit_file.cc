#include "audit/audit_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <limits>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "evenkeel/base/file.h"
#include "evenkeel/base/log.h"

namespace evenkeel {
namespace {

/// How long a lock is waited for: others hold it while they append a record.
constexpr int max_lock_tries = 100;
constexpr auto lock_interval = std::chrono::milliseconds(2);
/// How much of the end of a file is searched for its last record.
constexpr off_t searched_bytes = 256 * 1024;
/// No chain gets there: a higher number was made up, so that none could follow.
constexpr std::uint64_t max_sequence = std::numeric_limits<std::uint64_t>::max() / 2;

OwnedFd open_file(const std::string& path) {
  return OwnedFd(
      ::open(path.c_str(), O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0640));
}

int lock(int fd) {
  for (int tries = 0; tries < max_lock_tries; ++tries) {
    if (flock(fd, LOCK_EX | LOCK_NB) == 0) return 0;
    if (errno != EWOULDBLOCK && errno != EINTR) return errno;
    std::this_thread::sleep_for(lock_interval);
  }
  return EWOULDBLOCK;
}

bool is_regular(int fd) {
  struct stat status{};
  return fstat(fd, &status) == 0 && S_ISREG(status.st_mode);
}

/// What the end of a file holds.
struct FileEnd {
  std::optional<AuditHead> head;  // nothing: no record was found
  bool has_others = false;        // records that were changed, or written with another key
  std::uint64_t torn_bytes = 0;   // behind the last record
  bool ends_in_line = false;
};

bool may_be_continued(const AuditRecord& record, std::string_view key) {
  return record.sequence <= max_sequence && record.is_intact(key);
}

std::optional<FileEnd> read_end(int fd, off_t size, std::string_view key) {
  const off_t begin = std::max<off_t>(0, size - searched_bytes);
  std::string text(static_cast<std::size_t>(size - begin), '\0');
  if (pread(fd, text.data(), text.size(), begin) != static_cast<ssize_t>(text.size()))
    return std::nullopt;
  FileEnd end{.head = {}, .torn_bytes = text.size(), .ends_in_line = !text.ends_with('\n')};
  std::string_view rest = text;
  while (!rest.empty()) {
    const std::string_view lines = rest.substr(0, rest.size() - (rest.ends_with('\n') ? 1 : 0));
    const std::size_t before = lines.rfind('\n') + 1;  // 0: there is one line
    const auto record = AuditRecord::parse(lines.substr(before));
    if (record && may_be_continued(*record, key)) {
      end.head = {.sequence = record->sequence, .hash = std::string(record->hash)};
      end.torn_bytes = text.size() - rest.size();
      return end;
    }
    if (record) end.has_others = true;
    rest = rest.substr(0, before);
  }
  return end;
}

/// The file beside `path` that was changed last of those that it may have been moved to, such as
/// audit.jsonl.1; empty: there is none.
std::string moved_file(const std::string& path) {
  namespace fs = std::filesystem;
  const fs::path own(path);
  const std::string prefix = own.filename().string();
  std::error_code error;
  std::string newest;
  fs::file_time_type newest_time;
  const fs::path folder = own.has_parent_path() ? own.parent_path() : fs::path(".");
  for (fs::directory_iterator each(folder, error), end; !error && each != end;
       each.increment(error)) {
    const std::string name = each->path().filename().string();
    std::error_code ignored;
    if (name == prefix || !name.starts_with(prefix) || !each->is_regular_file(ignored)) continue;
    const auto time = each->last_write_time(ignored);
    if (ignored || each->file_size(ignored) == 0) continue;
    if (!newest.empty() && time <= newest_time) continue;
    newest = each->path().string();
    newest_time = time;
  }
  return newest;
}

}  // namespace

Result<AuditFile> AuditFile::open(std::string path, std::string key) {
  OwnedFd fd = open_file(path);
  struct stat status{};
  if (fd.get() < 0 || fstat(fd.get(), &status) != 0) {
    return Error{.fault = Fault::internal,
                 .detail = "cannot open audit log " + path + ": " + std::strerror(errno)};
  }
  if (!is_regular(fd.get())) {
    return Error{.fault = Fault::internal,
                 .detail = "cannot open audit log " + path + ": it is not a regular file"};
  }
  AuditFile file(std::move(path), std::move(key), std::move(fd));
  if (status.st_size == 0) {
    file.continue_moved_file();
    return file;
  }
  const auto end = read_end(file.fd_.get(), status.st_size, file.key_);
  if (end && !end->head && end->has_others) {
    return Error{.fault = Fault::internal,
                 .detail = "cannot continue audit log " + file.path_ +
                           ": its last records were changed, or written with another key or "
                           "without one; move it away to begin a new chain"};
  }
  return file;
}

/// A file that was moved while no process ran goes on in this one.
void AuditFile::continue_moved_file() {
  const std::string former = moved_file(path_);
  if (former.empty()) return;
  const OwnedFd fd(::open(former.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
  struct stat status{};
  if (fd.get() < 0 || fstat(fd.get(), &status) != 0) return;
  auto end = read_end(fd.get(), status.st_size, key_);
  if (!end || !end->head) return;
  head_ = std::move(*end->head);
  log::admin.info("audit: " + path_ + " is empty: it continues " + former);
}

int AuditFile::append(std::string_view members) {
  int error = lock_last();
  if (error == 0) error = write_line(members);
  flock(fd_.get(), LOCK_UN);
  return error;
}

/// Locks the file that is at the path, and reads where its chain ends.
int AuditFile::lock_last() {
  OwnedFd former;  // stays locked, so that others wait for what is to continue it
  while (true) {
    if (const int error = lock(fd_.get())) return error;
    if (const int error = read_head()) return error;
    if (is_at(path_, fd_.get())) return 0;
    OwnedFd next = open_file(path_);
    if (next.get() < 0) return errno;
    if (!is_regular(next.get())) return EMEDIUMTYPE;
    sync();
    former = std::exchange(fd_, std::move(next));
    known_size_ = -1;
  }
}

int AuditFile::read_head() {
  struct stat status{};
  if (fstat(fd_.get(), &status) != 0) return errno;
  if (status.st_size == known_size_) return 0;
  torn_bytes_ = 0;
  ends_in_line_ = false;
  if (status.st_size > 0) {
    const auto end = read_end(fd_.get(), status.st_size, key_);
    if (!end) return errno != 0 ? errno : EIO;
    torn_bytes_ = end->torn_bytes;
    ends_in_line_ = end->ends_in_line;
    // Others only continue the chain: where it ends earlier, records were removed, which the next
    // one is to show.
    if (end->head && end->head->sequence > head_.sequence) head_ = *end->head;
  }
  known_size_ = status.st_size;
  return 0;
}

int AuditFile::write_line(std::string_view members) {
  AuditHead next = head_;
  std::uint64_t torn = torn_bytes_;
  std::string text;
  if (ends_in_line_) {
    text += '\n';
    if (torn > 0) ++torn;
  }
  text += audit_line(next, torn, members, key_);
  const ssize_t written = write(fd_.get(), text.data(), text.size());
  if (written < 0) return errno;
  if (static_cast<std::size_t>(written) != text.size()) {
    // Where it cannot be taken back, the next record says what was left.
    const bool undone = ftruncate(fd_.get(), known_size_) == 0;
    if (!undone) known_size_ = -1;
    return ENOSPC;
  }
  known_size_ += written;
  head_ = std::move(next);
  torn_bytes_ = 0;
  ends_in_line_ = false;
  return 0;
}

int AuditFile::sync() {
  if (fdatasync(fd_.get()) == 0 || errno == EINVAL || errno == EROFS) return 0;
  return errno;
}

}  // namespace evenkeel
