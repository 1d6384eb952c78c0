// Sums of usage records.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "evenkeel/base/clock.h"
#include "evenkeel/base/hash.h"
#include "evenkeel/base/result.h"
#include "evenkeel/stats/amount.h"
#include "evenkeel/stats/usage_record.h"

namespace evenkeel {

/// What records are grouped by. `day`: in UTC.
enum class UsageKey : std::uint8_t { tenant, model, key, day, pool };

struct UsageSum {
  std::uint64_t requests = 0;
  std::uint64_t input_tokens = 0;
  std::uint64_t cached_tokens = 0;  ///< of the input
  std::uint64_t output_tokens = 0;
  std::uint64_t estimated = 0;  ///< requests whose tokens were
  std::uint64_t unpriced = 0;   ///< requests without a cost
  Amount cost;

  void add(const UsageRecord& record);
};

/// A set of ids, by hashes of 128 bits: takes 32 to 64 bytes each.
class IdSet {
 public:
  /// Adds an id. False: the set has it already.
  bool add(std::string_view id);
  std::size_t size() const { return count_; }

 private:
  bool insert(const WideHash& hash);
  void grow();

  std::vector<WideHash> places_;  // zeros: free; a power of two, at most half full
  std::size_t count_ = 0;
};

/// Sums records by group, each id once: files may overlap, and a record may be in several.
class UsageTotals {
 public:
  struct Options {
    std::vector<UsageKey> by;
    std::optional<Duration> since;  ///< since 1970: records of this time or later
    std::optional<Duration> until;  ///< earlier ones
  };
  explicit UsageTotals(Options options) : options_(std::move(options)) {}
  UsageTotals(UsageTotals&&) noexcept = default;

  /// Reads a file of records, which may be a gzip file; "-": standard input. What could be read
  /// counts, whatever the error.
  Result<Done> add_file(const std::string& path);
  void add_line(std::string_view line);

  const std::vector<UsageKey>& by() const { return options_.by; }
  /// The sums, by the texts of `by`. A text is empty where records have none.
  const std::map<std::vector<std::string>, UsageSum>& groups() const { return groups_; }
  const UsageSum& total() const { return total_; }
  std::uint64_t duplicates() const { return duplicates_; }
  /// Lines that are torn, or something else.
  std::uint64_t useless_lines() const { return useless_lines_; }

 private:
  UsageSum& group_of(const UsageRecord& record);

  Options options_;
  UsageReader reader_;
  IdSet ids_;
  std::map<std::vector<std::string>, UsageSum> groups_;
  std::vector<std::string> names_;  // of the last record's group
  UsageSum* group_ = nullptr;       // of these names
  UsageSum total_;
  std::uint64_t duplicates_ = 0;
  std::uint64_t useless_lines_ = 0;
};

}  // namespace evenkeel
