// Changes single values in the body of a request to a model, for the backends of one pool.
#pragma once

#include <string>
#include <vector>

#include "evenkeel/filter/spliced_body.h"
#include "evenkeel/http/message.h"

namespace evenkeel {

/// Replaces the name of the model in JSON bodies, and asks for the usage of streams whose clients
/// did not (`info.inference->usage_added`; the filter `observe` removes it from the response). All
/// other bytes stay. When the pool fails the request before a backend has seen it, the body is as
/// it was: another pool may change it differently.
///
/// Acts on requests that were inspected (inspect.h), and refuses those whose name it cannot find:
/// in a compressed body or a form (bad_request), behind what was inspected (body_too_large), or
/// behind what there was memory for (out_of_memory).
class RewriteFilter final : public Filter {
 public:
  /// What is asked of an engine for the usage of streams.
  struct Usage {
    bool asks = false;         ///< where the client did not
    bool keeps_nulls = false;  ///< it writes `"usage":null` whether asked or not
  };

  /// `model` empty: its name stays.
  RewriteFilter(std::string_view model, Usage usage);

  Task<Result<Response>> handle(Request& request, Handler& next) override;

 private:
  std::vector<BodyEdit> edits_of(const InferenceInfo& info) const;
  Task<Result<Response>> rewrite(Request& request, std::vector<BodyEdit> edits, Handler& next);

  const std::string quoted_model_;  // in JSON; empty: the name stays
  const Usage usage_;
};

}  // namespace evenkeel
