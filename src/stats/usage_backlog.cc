#include "evenkeel/stats/usage_backlog.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

#include "evenkeel/base/ascii.h"
#include "evenkeel/base/file.h"
#include "evenkeel/base/log.h"
#include "evenkeel/stats/usage_record.h"

namespace evenkeel {
namespace {

/// How much of the beginning of a file is searched for its first record.
constexpr std::size_t head_bytes = 16 * 1024;
/// How much is read at a time. A line that is longer is no record.
constexpr std::size_t read_bytes = 1024 * 1024;

/// Bytes of a file, fewer at its end; nothing with errno.
std::optional<std::string> read_at(int fd, std::uint64_t offset, std::size_t size) {
  std::string text(size, '\0');
  std::size_t filled = 0;
  while (filled < size) {
    const ssize_t got =
        pread(fd, text.data() + filled, size - filled, static_cast<off_t>(offset + filled));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return std::nullopt;
    if (got == 0) break;
    filled += static_cast<std::size_t>(got);
  }
  text.resize(filled);
  return text;
}

/// The id of the first record of a file; empty: it has none.
std::string first_record_of(int fd) {
  const auto text = read_at(fd, 0, head_bytes);
  if (!text) return {};
  UsageReader reader;
  std::string_view rest = *text;
  for (auto end = rest.find('\n'); end != rest.npos; end = rest.find('\n')) {
    if (reader.read(rest.substr(0, end)) != UsageReader::Line::useless)
      return std::string(reader.record().id);
    rest.remove_prefix(end + 1);
  }
  return {};
}

/// The id of the last record in front of an offset; empty: there is none near, or the file is
/// shorter.
std::string last_record_before(int fd, std::uint64_t offset) {
  const std::uint64_t begin = offset - std::min<std::uint64_t>(offset, head_bytes);
  const auto text = read_at(fd, begin, offset - begin);
  if (!text || text->size() != offset - begin) return {};
  UsageReader reader;
  std::string last;
  std::string_view rest = *text;
  for (auto end = rest.find('\n'); end != rest.npos; end = rest.find('\n')) {
    if (reader.read(rest.substr(0, end)) != UsageReader::Line::useless) last = reader.record().id;
    rest.remove_prefix(end + 1);
  }
  return last;
}

off_t size_of(int fd) {
  struct stat status{};
  return fstat(fd, &status) == 0 ? status.st_size : 0;
}

}  // namespace

bool is_moved_name(std::string_view name, std::string_view own) {
  const std::size_t dot = own.rfind('.');
  const std::string_view stem = own.substr(0, dot == 0 ? own.npos : dot);
  const std::string_view extension = own.substr(stem.size());
  if (name == own || !name.starts_with(stem)) return false;
  std::string rest(name.substr(stem.size()));
  const std::size_t at = extension.empty() ? rest.npos : rest.find(extension);
  if (at != rest.npos) rest.erase(at, extension.size());
  const auto may_be_in_date = [](char c) {
    return is_digit(c) || std::string_view("-_.:+TZ").find(c) != std::string_view::npos;
  };
  return std::ranges::any_of(rest, is_digit) && std::ranges::all_of(rest, may_be_in_date);
}

UsageBacklog::UsageBacklog(std::string path, WallTime since)
    : path_(std::move(path)), since_(since), position_file_(usage_position_path(path_)) {}

Result<bool> UsageBacklog::open() {
  auto locked = position_file_.lock();
  if (!locked || !*locked) return locked;
  auto position = position_file_.read();
  if (position) {
    position_ = std::move(*position);
  } else {
    log::usage.error(position.error().detail + ": the records of " + path_ + " are sent again");
  }
  if (!position_.file.empty()) return true;
  for (const File& each : moved_files()) {
    if (each.written < since_) after_ = each.first;
  }
  return true;
}

Result<std::vector<UnsentRecord>> UsageBacklog::read(Instant now, std::size_t max_records) {
  while (is_intact() || continue_file()) {
    auto records = scan(max_records);
    if (!records || !records->empty() || !leave_moved(now)) return records;
  }
  return std::vector<UnsentRecord>();
}

Result<Done> UsageBacklog::mark_sent(const UnsentRecord& last) {
  position_.offset = last.end;
  position_.last = last.id;
  return position_file_.write(position_);
}

// ---- files --------------------------------------------------------------------------------------

/// Opens a file; nothing: it has no record.
std::optional<UsageBacklog::File> UsageBacklog::open_file(const std::string& path) {
  File file{.fd = OwnedFd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK)),
            .first = {},
            .written = {}};
  struct stat status{};
  if (file.fd.get() < 0 || fstat(file.fd.get(), &status) != 0 || !S_ISREG(status.st_mode))
    return std::nullopt;
  file.first = first_record_of(file.fd.get());
  if (file.first.empty()) return std::nullopt;
  file.written = WallTime(std::chrono::seconds(status.st_mtim.tv_sec) +
                          std::chrono::nanoseconds(status.st_mtim.tv_nsec));
  return file;
}

/// The files that the one at the path may have been moved to, the oldest first: ids of records
/// begin with their time.
std::vector<UsageBacklog::File> UsageBacklog::moved_files() const {
  namespace fs = std::filesystem;
  const fs::path own(path_);
  const fs::path folder = own.has_parent_path() ? own.parent_path() : fs::path(".");
  std::vector<File> files;
  std::error_code error;
  for (fs::directory_iterator each(folder, error), end; !error && each != end;
       each.increment(error)) {
    if (!is_moved_name(each->path().filename().string(), own.filename().string())) continue;
    if (auto file = open_file(each->path().string())) files.push_back(std::move(*file));
  }
  std::ranges::sort(files, {}, &File::first);
  return files;
}

/// The file with this first record: the one at the path, unless only another has it.
std::optional<UsageBacklog::File> UsageBacklog::find(const std::string& first) const {
  auto present = open_file(path_);
  if (present && present->first == first) return present;
  for (File& each : moved_files()) {
    if (each.first == first) return std::move(each);
  }
  return std::nullopt;
}

/// The file that came after the one with this first record.
std::optional<UsageBacklog::File> UsageBacklog::successor_of(const std::string& first) const {
  auto present = open_file(path_);
  for (File& each : moved_files()) {
    if (each.first > first && (!present || each.first != present->first)) return std::move(each);
  }
  if (present && present->first == first) return std::nullopt;
  return present;
}

/// True if the open file is the one of the position: it was not truncated.
bool UsageBacklog::is_intact() const {
  return file_.fd.get() >= 0 && first_record_of(file_.fd.get()) == file_.first;
}

/// Opens the file of the position. False: there is none yet.
bool UsageBacklog::continue_file() {
  file_ = {};
  if (position_.file.empty()) {
    auto oldest = successor_of(after_);
    if (!oldest) return false;
    begin(std::move(*oldest), {});
    return true;
  }
  auto same = find(position_.file);
  if (same) {
    const bool is_as_sent = position_.offset == 0 ||
                            last_record_before(same->fd.get(), position_.offset) == position_.last;
    if (!is_as_sent) {
      log::usage.warning("usage records of " + path_ +
                         " are sent again: the file has lost some that were sent");
    }
    begin(std::move(*same), is_as_sent ? position_ : UsagePosition());
    return true;
  }
  auto next = successor_of(position_.file);
  if (!next) return false;
  log::usage.warning("the file of usage records that were sent up to byte " +
                     std::to_string(position_.offset) + " is no longer beside " + path_ +
                     ": if it had more, that was not sent");
  begin(std::move(*next), {});
  return true;
}

/// Goes on to the next file, if this one was moved and gets no more records.
bool UsageBacklog::leave_moved(Instant now) {
  if (is_at(path_, file_.fd.get())) {
    moved_since_ = never;
    return false;
  }
  auto next = successor_of(file_.first);
  if (!next) return false;
  const off_t size = size_of(file_.fd.get());
  if (moved_since_ == never || size != moved_size_) {
    moved_since_ = now;
    moved_size_ = size;
  }
  if (now - moved_since_ < moved_wait) return false;
  begin(std::move(*next), {});
  return true;
}

/// Reads a file on behind a position in it.
void UsageBacklog::begin(File file, UsagePosition position) {
  file_ = std::move(file);
  moved_since_ = never;
  position.file = file_.first;
  if (position == position_) return;
  position_ = std::move(position);
  // At once, so that the file is found again when it is moved. What fails here fails again where
  // records are marked, and is reported there.
  (void)position_file_.write(position_);
}

/// The records behind the position. Moves it behind lines that are none.
Result<std::vector<UnsentRecord>> UsageBacklog::scan(std::size_t max_records) {
  const int fd = file_.fd.get();
  const auto size = static_cast<std::uint64_t>(size_of(fd));
  std::vector<UnsentRecord> records;
  UsageReader reader;
  while (records.empty()) {
    const std::uint64_t unread = size - std::min(position_.offset, size);
    const auto text = read_at(fd, position_.offset, std::min<std::uint64_t>(unread, read_bytes));
    if (!text) {
      return Error{.fault = Fault::internal,
                   .detail = path_ + " cannot be read: " + std::strerror(errno)};
    }
    std::string_view rest = *text;
    std::uint64_t at = position_.offset;
    while (records.size() < max_records) {
      const std::size_t end = rest.find('\n');
      if (end == rest.npos) break;
      at += end + 1;
      if (reader.read(rest.substr(0, end)) != UsageReader::Line::useless) {
        records.push_back({.json = std::string(reader.text()),
                           .id = std::string(reader.record().id),
                           .time = reader.record().time,
                           .end = at});
      }
      rest.remove_prefix(end + 1);
    }
    if (!records.empty()) break;
    if (at == position_.offset && text->size() == read_bytes) at += read_bytes;
    if (at == position_.offset) break;
    position_.offset = at;
  }
  return records;
}

}  // namespace evenkeel
