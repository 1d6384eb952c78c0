#include "evenkeel/audit/audit_verify.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <utility>

#include "evenkeel/audit/audit_record.h"

namespace evenkeel {
namespace {

/// Follows a chain from line to line.
class ChainReader {
 public:
  explicit ChainReader(std::string_view key) : key_(key) {}

  /// Returns false if the chain is broken there.
  bool read_file(const std::string& file);
  AuditVerdict take() { return std::move(verdict_); }

 private:
  bool read_line(std::string_view line);
  bool follow(const AuditRecord& record);
  bool broken(std::uint64_t line, std::string_view why) {
    verdict_.problem = fmt::format("{}:{}: {}", file_, line, why);
    return false;
  }
  std::string broken_hash(const AuditRecord& record) const;

  const std::string_view key_;
  AuditVerdict verdict_;
  std::string file_;
  std::uint64_t line_ = 0;        // the present one
  std::uint64_t torn_line_ = 0;   // the first of those behind the last record; 0: none
  std::uint64_t torn_bytes_ = 0;  // of those
};

bool ChainReader::read_file(const std::string& file) {
  file_ = file;
  line_ = torn_line_ = torn_bytes_ = 0;
  std::ifstream input(file, std::ios::binary);
  if (!input) {
    verdict_.problem = fmt::format("{}: cannot be read: {}", file, std::strerror(errno));
    return false;
  }
  bool has_end = true;
  for (std::string line; std::getline(input, line);) {
    ++line_;
    has_end = !input.eof();
    if (!read_line(line)) return false;
  }
  if (input.bad()) return broken(line_ + 1, "cannot be read");
  if (torn_line_ == 0) return true;
  if (has_end || torn_line_ != line_) return broken(torn_line_, "is no record of the audit log");
  verdict_.notes.push_back(
      fmt::format("{}:{}: the last line is not complete, as a process that is killed leaves it, or "
                  "one that is writing",
                  file_, line_));
  return true;
}

bool ChainReader::read_line(std::string_view line) {
  const auto record = AuditRecord::parse(line);
  if (!record) {
    if (torn_line_ == 0) torn_line_ = line_;
    torn_bytes_ += line.size() + 1;
    return true;
  }
  if (!record->is_intact(key_)) return broken(line_, broken_hash(*record));
  if (record->torn_bytes != torn_bytes_) {
    return torn_line_ != 0 ? broken(torn_line_, "is no record of the audit log")
                           : broken(line_, "what was in front of this record is not there");
  }
  if (torn_line_ != 0) {
    verdict_.notes.push_back(
        fmt::format("{}:{}: {} bytes of a record that a process which was killed has not finished",
                    file_, torn_line_, torn_bytes_));
  }
  torn_line_ = torn_bytes_ = 0;
  return follow(*record);
}

std::string ChainReader::broken_hash(const AuditRecord& record) const {
  std::string text =
      fmt::format("record {} was changed: its hash is not that of its contents", record.sequence);
  if (verdict_.records > 0) return text;
  return text + (key_.empty() ? "; if it was written with a key, name that in --key-file"
                              : "; or it was written with another key, or without one");
}

bool ChainReader::follow(const AuditRecord& record) {
  if (verdict_.records == 0) {
    verdict_.first = record.sequence;
    verdict_.first_time = record.time();
    if (record.sequence != 1) {
      verdict_.notes.push_back(
          fmt::format("{}:{}: begins with record {}: those before it are in earlier files", file_,
                      line_, record.sequence));
    } else if (record.previous != AuditHead().hash) {
      return broken(line_, "the first record continues another one, which is not there");
    }
  } else if (record.sequence != verdict_.last + 1) {
    return broken(line_,
                  record.sequence > verdict_.last
                      ? fmt::format("record {} follows record {}: those between are missing",
                                    record.sequence, verdict_.last)
                      : fmt::format("record {} follows record {}: it is out of its place, or "
                                    "was added",
                                    record.sequence, verdict_.last));
  } else if (record.previous != verdict_.last_hash) {
    return broken(line_, fmt::format("record {} does not continue record {} as it stands here: "
                                     "one of them was replaced",
                                     record.sequence, verdict_.last));
  }
  ++verdict_.records;
  verdict_.last = record.sequence;
  verdict_.last_time = record.time();
  verdict_.last_hash = record.hash;
  return true;
}

}  // namespace

AuditVerdict verify_audit_files(const std::vector<std::string>& files, std::string_view key) {
  ChainReader reader(key);
  for (const std::string& file : files) {
    if (!reader.read_file(file)) break;
  }
  return reader.take();
}

}  // namespace evenkeel
