#include "evenkeel/stats/usage_totals.h"

#include <unistd.h>
#include <zlib.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "evenkeel/base/rfc3339.h"

namespace evenkeel {
namespace {

constexpr std::size_t read_bytes = 1024UL * 1024;  // at a time
constexpr std::size_t max_line_bytes = 64UL * 1024;
constexpr std::size_t first_places = 1024;

std::string day_of(const UsageRecord& record) {
  return rfc3339(std::chrono::floor<std::chrono::seconds>(record.time)).substr(0, 10);
}

/// Sets the name to that of the record, if it is another.
void assign(std::string& name, UsageKey key, const UsageRecord& record, bool& changed) {
  const auto set = [&](std::string_view text) {
    if (name == text) return;
    name = text;
    changed = true;
  };
  switch (key) {
    case UsageKey::tenant: return set(record.tenant);
    case UsageKey::model: return set(record.model);
    case UsageKey::key: return set(record.key);
    case UsageKey::pool: return set(record.pool);
    case UsageKey::day: return set(day_of(record));
  }
}

Error unreadable(const std::string& path, const char* why) {
  return {.fault = Fault::bad_request, .detail = path + ": " + why};
}

}  // namespace

void UsageSum::add(const UsageRecord& record) {
  ++requests;
  input_tokens += record.input_tokens;
  cached_tokens += record.cached_tokens.value_or(0);
  output_tokens += record.output_tokens;
  estimated += record.estimated ? 1 : 0;
  unpriced += record.cost ? 0 : 1;
  if (record.cost) cost += *record.cost;
}

bool IdSet::add(std::string_view id) {
  WideHash hash = wide_hash_of(id, 0);
  if (hash == WideHash{}) hash.low = 1;
  if (2 * (count_ + 1) > places_.size()) grow();
  const bool is_new = insert(hash);
  count_ += is_new ? 1 : 0;
  return is_new;
}

bool IdSet::insert(const WideHash& hash) {
  const std::size_t mask = places_.size() - 1;
  std::size_t at = hash.low & mask;
  for (; places_[at] != WideHash{}; at = (at + 1) & mask) {
    if (places_[at] == hash) return false;
  }
  places_[at] = hash;
  return true;
}

void IdSet::grow() {
  std::vector<WideHash> former(places_.empty() ? first_places : 2 * places_.size());
  former.swap(places_);
  for (const WideHash& hash : former) {
    if (hash != WideHash{}) insert(hash);
  }
}

Result<Done> UsageTotals::add_file(const std::string& path) {
  errno = 0;
  const gzFile opened = path == "-" ? gzdopen(dup(STDIN_FILENO), "rb") : gzopen(path.c_str(), "rb");
  const std::unique_ptr<gzFile_s, int (*)(gzFile)> file(opened, &gzclose);
  if (!file) return unreadable(path, std::strerror(errno != 0 ? errno : ENOMEM));
  gzbuffer(file.get(), 128 * 1024);

  std::string text;    // from the beginning of a line
  bool skips = false;  // the rest of a line that is too long
  while (true) {
    const std::size_t filled = text.size();
    text.resize(filled + read_bytes);
    const int got = gzread(file.get(), text.data() + filled, read_bytes);
    text.resize(filled + static_cast<std::size_t>(std::max(got, 0)));
    std::string_view rest = text;
    for (std::size_t end = rest.find('\n'); end != rest.npos; end = rest.find('\n')) {
      if (!std::exchange(skips, false)) add_line(rest.substr(0, end));
      rest.remove_prefix(end + 1);
    }
    if (rest.size() > max_line_bytes) {
      useless_lines_ += skips ? 0 : 1;
      skips = true;
      rest = {};
    }
    text.erase(0, text.size() - rest.size());
    int code = Z_OK;
    const char* const what = gzerror(file.get(), &code);
    const bool has_failed = got < 0 || code == Z_BUF_ERROR;
    if (got > 0 && !has_failed) continue;
    if (!skips) add_line(text);  // a torn one
    if (!has_failed) return Done{};
    return unreadable(path, code == Z_ERRNO       ? std::strerror(errno)
                            : code == Z_BUF_ERROR ? "ends within compressed data"
                                                  : what);
  }
}

void UsageTotals::add_line(std::string_view line) {
  if (line.ends_with('\r')) line.remove_suffix(1);
  if (line.empty()) return;
  const UsageReader::Line kind = reader_.read(line);
  if (kind != UsageReader::Line::whole) ++useless_lines_;
  if (kind == UsageReader::Line::useless) return;
  const UsageRecord& record = reader_.record();
  const Duration time = record.time.time_since_epoch();
  if (options_.since && time < *options_.since) return;
  if (options_.until && time >= *options_.until) return;
  if (!ids_.add(record.id)) {
    ++duplicates_;
    return;
  }
  total_.add(record);
  group_of(record).add(record);
}

UsageSum& UsageTotals::group_of(const UsageRecord& record) {
  bool changed = group_ == nullptr;
  names_.resize(options_.by.size());
  for (std::size_t i = 0; i < names_.size(); ++i)
    assign(names_[i], options_.by[i], record, changed);
  if (changed) group_ = &groups_[names_];
  return *group_;
}

}  // namespace evenkeel
