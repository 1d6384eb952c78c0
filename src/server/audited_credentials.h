// Tells the audit log what becomes of clients' credentials.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <unordered_set>

#include "evenkeel/audit/audit_log.h"
#include "evenkeel/filter/access_log.h"

namespace evenkeel {

/// Records the first use of each key, and requests that are refused. Thread: one worker's.
class AuditedCredentials final : public CredentialObserver {
 public:
  /// `log` outlives it.
  explicit AuditedCredentials(AuditLog& log) : log_(log) {}

  void key_used(const RequestInfo& info) override;
  void refused(const RequestInfo& info, std::string_view path) override;

 private:
  AuditLog& log_;
  std::unordered_set<std::uint64_t> seen_keys_;  // hashes of those that this worker has asked about
};

}  // namespace evenkeel
