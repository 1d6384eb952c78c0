// Looks whether the chain of an audit log holds.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace evenkeel {

/// What the files of an audit log show.
struct AuditVerdict {
  /// The first place where the chain is broken, and why: "audit.jsonl:17: ..."; empty: it holds.
  std::string problem;
  std::vector<std::string> notes;  ///< what an auditor should know although it holds
  std::uint64_t records = 0;       ///< that hold, up to the problem
  std::uint64_t first = 0;         ///< sequence number; 0: there is no record
  std::uint64_t last = 0;
  std::string first_time;
  std::string last_time;
  std::string last_hash;
};

/// Reads files, the oldest first, each of which continues the one before. `key`: of the hashes;
/// empty: they have none.
AuditVerdict verify_audit_files(const std::vector<std::string>& files, std::string_view key);

}  // namespace evenkeel
