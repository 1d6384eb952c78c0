// Changes single values in the body of a request to a model, for the backends of one pool.
#pragma once

#include <string>
#include <vector>

#include "evenkeel/filter/spliced_body.h"
#include "evenkeel/http/message.h"

namespace evenkeel {

/// Replaces the name of the model in JSON bodies, and prepares to ask for the usage of streams
/// whose clients did not (`info.inference->wants_usage`): the forwarder decides for each backend
/// whether it is asked, and the filter `observe` removes it from the response. All other bytes
/// stay. When the pool fails the request before a backend has seen it, the body is as it was:
/// another pool may change it differently.
///
/// Acts on requests that were inspected (inspect.h), and refuses those whose name it cannot find:
/// in a compressed body or a form that names another (bad_request), behind what was inspected
/// (body_too_large), or behind what there was memory for (out_of_memory).
class RewriteFilter final : public Filter {
 public:
  /// `model` empty: its name stays. `adds_usage`: asks for the usage of streams.
  RewriteFilter(std::string_view model, bool adds_usage);

  Task<Result<Response>> handle(Request& request, Handler& next) override;

 private:
  std::vector<BodyEdit> edits_of(const InferenceInfo& info) const;
  Task<Result<Response>> rewrite(Request& request, std::vector<BodyEdit> edits, Handler& next);

  const std::string model_;
  const std::string quoted_model_;  // in JSON; empty: the name stays
  const bool adds_usage_;
};

}  // namespace evenkeel
