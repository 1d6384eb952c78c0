#include "evenkeel/scheduler/decision.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace evenkeel {
namespace {

double sum_of(const std::array<double, held_by_count>& seconds) {
  double sum = 0;
  for (const double each : seconds) sum += each;
  return sum;
}

/// The cause for which the request was held longest.
HeldBy main_cause(const Decision& decision) {
  const auto longest = std::ranges::max_element(decision.held_seconds);
  return static_cast<HeldBy>(longest - decision.held_seconds.begin());
}

}  // namespace

const char* to_string(HeldBy held_by) {
  switch (held_by) {
    case HeldBy::order: return "order";
    case HeldBy::usable: return "usable";
    case HeldBy::backlog: return "backlog";
    case HeldBy::learning: return "learning";
    case HeldBy::memory: return "memory";
    case HeldBy::streams: return "streams";
  }
  return "unknown";
}

const char* to_string(Decision::State state) {
  switch (state) {
    case Decision::State::waits: return "waits";
    case Decision::State::placed: return "placed";
    case Decision::State::refused: return "refused";
    case Decision::State::left: return "left";
    case Decision::State::moved: return "moved";
    case Decision::State::finished: return "finished";
    case Decision::State::failed: return "failed";
  }
  return "unknown";
}

std::string_view ExplainedDecision::backend(std::uint32_t slot) const {
  if (slot == Scheduler::no_backend) return "-";
  const auto found = backends.find(slot);
  return found == backends.end() ? "?" : std::string_view(found->second);
}

std::string compact_text(const ExplainedDecision& explained) {
  const Decision& decision = explained.decision;
  const bool placed = decision.chosen != Scheduler::no_backend;
  std::string text = placed ? fmt::format("backend=\"{}\"", explained.backend(decision.chosen))
                            : fmt::format("state={}", to_string(decision.state));
  text += fmt::format(", waited={:.3f}", seconds_of(decision.waited));
  if (sum_of(decision.held_seconds) > 0) {
    text += fmt::format(", held_by={}", to_string(main_cause(decision)));
  }
  if (placed) {
    text += fmt::format(", ttft={:.3f}, output={:.0f}", seconds_of(decision.predicted_ttft),
                        decision.predicted_output);
  } else {
    text +=
        fmt::format(", prompt={:.3f}, target={:.3f}", decision.least_prefill, decision.ttft_target);
  }
  text += fmt::format(", of={}", decision.considered);
  for (std::size_t i = 0; i < std::min<std::size_t>(decision.candidate_count, 3); ++i) {
    const CandidateCost& each = decision.candidates[i];
    text += fmt::format(
        ", "
        "c{}=\"{}\";cost={:.3f};w={:.3f};e={:.3f};s={:.3f};l={:.3f};cached={:.0f};uncached={:.0f};"
        "x={:.3f};d={:.3f};m={:.3f};confidence={}",
        i + 1, explained.backend(each.slot), each.cost, each.wait, each.promised, each.prefill,
        each.load + each.eviction, each.cached, each.uncached, each.violations, each.decode,
        each.memory, to_string(each.confidence));
  }
  return text;
}

}  // namespace evenkeel
