#include "evenkeel/base/loop_liveness.h"

#include <memory>

namespace evenkeel {
namespace {

/// Used by the checking loop only. Shared by the posted functions, so it lives until the last one
/// has run.
struct LivenessCheck {
  explicit LivenessCheck(Loop& own) : all_responded(own) {}
  Signal all_responded;
  std::size_t remaining = 0;
};

}  // namespace

Task<bool> all_responsive(Loop& own, std::vector<Loop*> loops, Instant deadline) {
  if (loops.empty()) co_return true;
  const auto check = std::make_shared<LivenessCheck>(own);
  check->remaining = loops.size();
  for (Loop* loop : loops) {
    loop->post([&own, check] {
      own.post([check] {
        if (--check->remaining == 0) check->all_responded.raise();
      });
    });
  }
  auto wake = co_await check->all_responded.wait(deadline);
  co_return wake != Wake::expired;
}

}  // namespace evenkeel
