// Changes single values in the body of a request to a model, for the backends of one pool.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "evenkeel/config/config.h"
#include "evenkeel/filter/body_rules.h"
#include "evenkeel/filter/spliced_body.h"
#include "evenkeel/http/message.h"

namespace evenkeel {

/// Replaces the name of the model in JSON bodies, changes members as the file says (BodyRules), and
/// prepares to ask for the usage of streams whose clients did not
/// (`info.inference->wants_usage`): the forwarder decides for each backend whether it is asked. The
/// filter `observe` gives the response the client's name of the model again, and removes the usage.
/// All other bytes stay. When the pool fails the request before a backend has seen it, the body is
/// as it was: another pool may change it differently.
///
/// Acts on requests that were inspected (inspect.h), and refuses those that it cannot change as it
/// must: in a compressed body or a form that names another model (bad_request), behind what was
/// inspected (body_too_large), or behind what there was memory for (out_of_memory). It refuses too
/// what asks for more tokens than its tenant may (bad_request).
class RewriteFilter final : public Filter {
 public:
  /// `adds_usage`: asks for the usage of streams. The pool and the rules outlive the filter.
  RewriteFilter(const PoolConfig& pool, bool adds_usage, const RouteBodyRules& rules);

  Task<Result<Response>> handle(Request& request, Handler& next) override;

 private:
  /// A name of the model that backends get.
  struct ServedName {
    std::string_view name;
    std::string quoted;  // in JSON
  };

  const ServedName& served_name(std::string_view asked) const;
  std::optional<Error> rename(Request& request, std::vector<BodyEdit>& edits) const;
  std::optional<Error> change(Request& request, std::vector<BodyEdit>& edits) const;
  void add_usage(const InferenceInfo& info, std::vector<BodyEdit>& edits) const;
  Task<Result<Response>> rewrite(Request& request, std::vector<BodyEdit> edits,
                                 std::optional<std::uint32_t> max_tokens, Handler& next) const;

  const ServedName model_;                                      // of all others; empty: they stay
  const std::map<std::string, ServedName, std::less<>> names_;  // by the client's
  const bool is_hosted_;
  const bool adds_usage_;
  const RouteBodyRules& rules_;
  std::optional<BodyRules> body_;  // nothing: the pool has none
};

}  // namespace evenkeel
