// The conditions of a route on what a request asks of a model.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "evenkeel/config/config.h"
#include "evenkeel/http/inference_info.h"

namespace evenkeel {

class BodyMatch {
 public:
  explicit BodyMatch(const RouteMatch& match);

  bool matches(const InferenceRequest& asked) const;
  /// `matches` may hold for a request for this model.
  bool takes_model(std::string_view model) const;

 private:
  std::vector<std::string> models_;  // globs
  std::uint32_t tasks_;              // a bit for each InferenceTask; 0: any
  std::optional<TokenBounds> prompt_tokens_;
  std::optional<TokenBounds> max_tokens_;
};

}  // namespace evenkeel
