// The conditions of a route on what a request asks of a model.
#pragma once

#include <cstdint>
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

  enum class Verdict : std::uint8_t {
    no,
    open,  ///< it depends on what the rest of the body says
    yes,
  };

  /// Judges a request whose body is being read, as far as that does not depend on the prompt's
  /// size, of which there is always an estimate.
  Verdict judge(const InferenceRequest& asked) const;
  /// True if the request meets the conditions. `rest_unread`: see InferenceInfo.
  bool matches(const InferenceRequest& asked, bool rest_unread) const;
  /// True if the size of the prompt matters.
  bool depends_on_size() const { return prompt_tokens_.has_value(); }
  bool depends_on_model() const { return !models_.empty(); }
  /// True if `matches` may hold for a request for this model.
  bool takes_model(std::string_view model) const;

 private:
  std::vector<std::string> models_;  // globs
  std::uint32_t tasks_;              // a bit for each InferenceTask; 0: any
  std::optional<TokenBounds> prompt_tokens_;
  std::optional<TokenBounds> max_tokens_;
};

}  // namespace evenkeel
