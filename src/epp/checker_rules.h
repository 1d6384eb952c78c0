// The rules of the checker, each a function.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "epp/checker_session.h"
#include "evenkeel/base/task.h"
#include "evenkeel/epp/checker.h"

namespace evenkeel {

/// What a rule has found.
struct Finding {
  RuleVerdict verdict = RuleVerdict::ok;
  std::string seen;
};

inline Finding holds(std::string seen) { return {RuleVerdict::ok, std::move(seen)}; }
inline Finding fails(std::string seen) { return {RuleVerdict::failed, std::move(seen)}; }
inline Finding skips(std::string seen) { return {RuleVerdict::skipped, std::move(seen)}; }

struct CheckRule {
  std::string_view name;
  std::string_view says;
  /// True if the protocol does not demand it: a picker that does otherwise does not fail.
  bool advice = false;
  /// True if the rule says something only of a picker that picks.
  bool needs_pick = true;
  Task<Finding> (*check)(CheckSession& session);
};

// ---- where the pick is ----
Task<Finding> check_pick(CheckSession& session);
Task<Finding> check_pick_metadata(CheckSession& session);
Task<Finding> check_pick_equal(CheckSession& session);
Task<Finding> check_endpoint_syntax(CheckSession& session);
Task<Finding> check_route_cache(CheckSession& session);
Task<Finding> check_claimed_destination(CheckSession& session);

// ---- requests ----
Task<Finding> check_one_head(CheckSession& session);
Task<Finding> check_order(CheckSession& session);
Task<Finding> check_bodies(CheckSession& session);
Task<Finding> check_body_whole(CheckSession& session);
Task<Finding> check_body_pieces(CheckSession& session);
Task<Finding> check_body_end(CheckSession& session);
Task<Finding> check_bodiless(CheckSession& session);
Task<Finding> check_trailers(CheckSession& session);
Task<Finding> check_unknown_fields(CheckSession& session);
Task<Finding> check_garbage(CheckSession& session);
Task<Finding> check_buffered(CheckSession& session);

// ---- subsets ----
Task<Finding> check_subset(CheckSession& session);
Task<Finding> check_subset_text(CheckSession& session);
Task<Finding> check_subset_unknown(CheckSession& session);
Task<Finding> check_subset_empty(CheckSession& session);

// ---- responses ----
Task<Finding> check_response(CheckSession& session);
Task<Finding> check_response_trailers(CheckSession& session);
Task<Finding> check_served(CheckSession& session);

// ---- streams ----
Task<Finding> check_half_close(CheckSession& session);
Task<Finding> check_early_half_close(CheckSession& session);
Task<Finding> check_streams(CheckSession& session);
Task<Finding> check_cancel(CheckSession& session);

// ---- gRPC ----
Task<Finding> check_unknown_method(CheckSession& session);
Task<Finding> check_health(CheckSession& session);

/// Why the value of the header is no list of endpoints; empty: it is one.
std::string endpoint_list_problem(std::string_view list);

}  // namespace evenkeel
