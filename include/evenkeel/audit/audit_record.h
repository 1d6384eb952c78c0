// One record of the audit log as a line of JSON, which has the hash of the record before it:
//
//     {"seq":7,"time":"...","event":"reload",...,"prev":"HEX","hash":"HEX"}
//
// `hash` is the SHA-256 of the bytes of the line before `,"hash"`, or, with a key, their
// HMAC-SHA-256. The first record of a chain has zeros as its `prev`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace evenkeel {

/// Where a chain of records ends: what the next record continues.
struct AuditHead {
  std::uint64_t sequence = 0;               ///< of the last record; 0: there is none
  std::string hash = std::string(64, '0');  ///< in hexadecimal
};

/// A line that has the form of a record. Its texts are the line's.
struct AuditRecord {
  std::uint64_t sequence = 0;
  /// How many bytes in front of the record belong to none, as a process that was killed leaves
  /// them.
  std::uint64_t torn_bytes = 0;
  std::string_view previous;
  std::string_view hash;
  std::string_view hashed;  ///< what `hash` is of

  /// Reads a line without its end. Nothing: it is no record.
  static std::optional<AuditRecord> parse(std::string_view line);
  /// True if the hash is that of the record. `key`: empty: there is none.
  bool is_intact(std::string_view key) const;
  /// The value of the member `time`; empty: it has none.
  std::string_view time() const;
};

/// The longest line of a record, with its end.
inline constexpr std::size_t max_audit_line_bytes = 16 * 1024;

/// The line of a record behind `head`, with its line end. `members`: the JSON members that it has,
/// without braces. Moves `head` on.
std::string audit_line(AuditHead& head, std::uint64_t torn_bytes, std::string_view members,
                       std::string_view key);

}  // namespace evenkeel
