// What the file changes in the JSON bodies of requests for text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "evenkeel/config/config.h"
#include "evenkeel/filter/by_route.h"
#include "evenkeel/filter/spliced_body.h"
#include "evenkeel/http/inference_info.h"

namespace evenkeel {

/// The members that something in the file changes, for RequestReader::create. Empty: none.
std::vector<std::string> changed_members(const Config& config);

/// The `body` of a pool or a route. `max_tokens`, `max_completion_tokens` and `max_output_tokens`
/// are one member, which is written under the name that the API has.
class BodyRules {
 public:
  /// `members`: those of the file. They and the configuration outlive the rules.
  BodyRules(const BodyConfig& config, const std::vector<std::string>& members);

  const BodyConfig& config() const { return *config_; }

 private:
  friend class BodyChanges;
  struct Value {
    std::uint32_t name = 0;  // of `members`
    std::string_view json;
  };
  struct Limit {
    std::optional<std::uint32_t> value;
    std::string_view name;  // in the file
  };

  const BodyConfig* config_;
  std::vector<Value> defaults_;
  std::vector<Value> set_;
  Limit default_limit_;
  Limit set_limit_;
  std::uint32_t max_tokens_;
};

/// What routes change in bodies, and which members anything in the file changes.
class RouteBodyRules {
 public:
  /// The configuration outlives it.
  explicit RouteBodyRules(const Config& config);
  RouteBodyRules(const RouteBodyRules&) = delete;
  RouteBodyRules& operator=(const RouteBodyRules&) = delete;

  /// True if bodies for any pool may be changed.
  bool concern_all_pools() const { return concerns_tenants_ || !routes_.empty(); }
  const std::vector<std::string>& members() const { return members_; }
  /// The rules of the request's route; null if it has none.
  const BodyRules* find(const RequestIdentity& identity) const { return routes_.find(identity); }
  /// The same as the file has it; empty if there are none.
  const BodyConfig& config_of(const RequestIdentity& identity) const;

 private:
  const std::vector<std::string> members_;
  const bool concerns_tenants_;
  const ByRoute<BodyRules> routes_;
};

/// What becomes of one body.
class BodyChanges {
 public:
  BodyChanges(const InferenceInfo& info, const std::vector<std::string>& members);

  /// Applies rules to the body as the ones before have left it.
  void apply(const BodyRules& rules);
  /// Lowers the most tokens that the request may ask for.
  void limit_tokens(std::uint32_t max);
  /// Sets the salt of cached prefixes, a text in JSON, which outlives the changes.
  void set_cache_salt(std::string_view json);

  /// True if the body stays as it is.
  bool empty() const { return values_.empty() && !limit_changed_ && !others_limit_; }
  /// The most tokens that the changed body asks for; nothing: it does not say, or not as a number.
  std::optional<std::uint32_t> max_tokens() const { return limit_; }
  /// Adds the edits that make the changes, in no order. REQUIRES: the body is JSON, all of which
  /// was read.
  void add_to(std::vector<BodyEdit>& edits) const;

 private:
  static bool counts(const MemberPlace& place);
  bool has_member(std::uint32_t name) const;
  bool is_limit(std::uint32_t name) const;
  bool exceeds(const MemberPlace& place, std::uint32_t max) const;
  void set(std::uint32_t name, std::string_view json);
  void set_limit(std::uint32_t value);

  const InferenceInfo& info_;
  const std::vector<std::string>& members_;
  std::vector<BodyRules::Value> values_;  // that are put in
  std::size_t limits_given_ = 0;          // by the client
  bool limit_changed_ = false;
  std::optional<std::uint32_t> limit_;
  std::optional<std::uint32_t> others_limit_;  // of members that only some servers take
  std::string_view limit_name_;                // in the file; empty: it says nothing of the name
};

}  // namespace evenkeel
