#include "evenkeel/stats/model_metrics.h"

namespace evenkeel {

const char* to_string(TokenDirection direction) {
  switch (direction) {
    case TokenDirection::input: return "input";
    case TokenDirection::output: return "output";
    case TokenDirection::cached: return "cached";
  }
  return "input";
}

std::uint32_t ModelNames::index_of(std::string_view name) {
  if (name.empty()) return 0;
  if (const auto found = known_.find(name); found != known_.end()) return found->second;
  // Other workers may have added names, and a reload may have pinned some.
  if (const std::uint32_t version = index_.models_version(); version != version_) {
    version_ = version;
    for (const auto& [each, at] : index_.models()) known_.try_emplace(each, at);
    if (const auto found = known_.find(name); found != known_.end()) return found->second;
  }
  if (full_) return LabelIndex::other_model;
  const std::uint32_t index = index_.model(name);
  if (index != LabelIndex::other_model) {
    known_.emplace(name, index);
  } else {
    full_ = index_.models_full();
  }
  return index;
}

}  // namespace evenkeel
