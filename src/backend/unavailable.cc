#include "evenkeel/backend/unavailable.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "evenkeel/backend/shared_backend.h"

namespace evenkeel {
namespace {

/// The words of the reasons, of which the first one of a backend counts: what an operator has set,
/// then what only its server can mend.
constexpr std::array<std::pair<OutOfRotation, std::string_view>, 7> words = {
    {{OutOfRotation::draining, "drained"},
     {OutOfRotation::unresolved, "without an address"},
     {OutOfRotation::unhealthy, "down"},
     {OutOfRotation::starting, "starting"},
     {OutOfRotation::sleeping, "asleep"},
     {OutOfRotation::ejected, "ejected"},
     {OutOfRotation::standby, "on standby"}}};

}  // namespace

std::string why_unavailable(const Backends& backends, Instant now) {
  std::array<std::size_t, words.size()> counts{};
  for (const BackendPtr& backend : backends) {
    const SharedBackend& shared = backend->shared();
    const auto found = std::ranges::find_if(words, [&](const auto& each) {
      const bool cannot_connect =
          each.first == OutOfRotation::unhealthy && shared.state.unreachable(now);
      return shared.state.is_out(each.first) || cannot_connect;
    });
    if (found == words.end()) return {};
    ++counts[static_cast<std::size_t>(found - words.begin())];
  }
  std::string text;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (counts[i] == 0) continue;
    const std::string word(words[i].second);
    if (counts[i] == backends.size()) {
      return (counts[i] == 1 ? "its only backend is " : "all backends are ") + word;
    }
    text += (text.empty() ? "no backend is up: " : ", ") + std::to_string(counts[i]) + " " + word;
  }
  return text;
}

}  // namespace evenkeel
