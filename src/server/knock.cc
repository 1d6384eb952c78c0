#include "server/knock.h"

#include <memory>

namespace evenkeel {
namespace {

/// Lives on the knocker's loop, for as long as an answer may come.
struct Knock {
  explicit Knock(Loop& own) : all_here(own) {}
  Signal all_here;
  std::size_t left = 0;
};

}  // namespace

Task<bool> all_answer(Loop& own, std::vector<Loop*> loops, Instant deadline) {
  if (loops.empty()) co_return true;
  const auto knock = std::make_shared<Knock>(own);
  knock->left = loops.size();
  for (Loop* loop : loops) {
    loop->post([&own, knock] {
      own.post([knock] {
        if (--knock->left == 0) knock->all_here.raise();
      });
    });
  }
  auto wake = co_await knock->all_here.wait(deadline);
  co_return wake != Wake::expired;
}

}  // namespace evenkeel
