#include "proxy/body_match.h"

#include <algorithm>
#include <string_view>

#include "evenkeel/base/glob.h"

namespace evenkeel {
namespace {

std::uint32_t bits_of(const std::vector<std::string>& tasks) {
  std::uint32_t bits = 0;
  for (int task = 0; task < inference_task_count; ++task) {
    const std::string_view word = to_string(static_cast<InferenceTask>(task));
    if (std::find(tasks.begin(), tasks.end(), word) != tasks.end()) bits |= 1U << task;
  }
  return bits;
}

}  // namespace

BodyMatch::BodyMatch(const RouteMatch& match)
    : models_(match.model),
      tasks_(bits_of(match.task)),
      prompt_tokens_(match.prompt_tokens),
      max_tokens_(match.max_tokens) {}

BodyMatch::Verdict BodyMatch::judge(const InferenceRequest& asked) const {
  if (tasks_ != 0 && (tasks_ >> static_cast<unsigned>(asked.task) & 1) == 0) return Verdict::no;
  const bool names_model = models_.empty() || !asked.model.empty();
  if (names_model && !takes_model(asked.model)) return Verdict::no;
  const bool names_maximum = !max_tokens_ || asked.max_tokens;
  if (max_tokens_ && names_maximum && !max_tokens_->contains(*asked.max_tokens)) return Verdict::no;
  return names_model && names_maximum ? Verdict::yes : Verdict::open;
}

bool BodyMatch::matches(const InferenceRequest& asked, bool rest_unread) const {
  const Verdict verdict = judge(asked);
  if (verdict == Verdict::no) return false;
  if (prompt_tokens_ && !prompt_tokens_->contains(asked.estimated_prompt_tokens)) return false;
  if (verdict == Verdict::yes || rest_unread) return true;
  // Nothing more is to come.
  return !max_tokens_ && takes_model(asked.model);
}

bool BodyMatch::takes_model(std::string_view model) const {
  return models_.empty() ||
         std::any_of(models_.begin(), models_.end(),
                     [model](const std::string& glob) { return matches_glob(glob, model); });
}

}  // namespace evenkeel
