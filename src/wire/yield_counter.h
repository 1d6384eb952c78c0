// When a loop that always finds something to do lets others run.
#pragma once

namespace evenkeel {

/// Counts the steps of a coroutine's loop that did not have to wait.
class YieldCounter {
 public:
  /// The loop has waited, so that others have run.
  void waited() { steps_ = 0; }
  /// Counts a step. True if the coroutine has to yield now.
  bool is_due() { return ++steps_ % max_steps == 0; }

 private:
  static constexpr unsigned max_steps = 16;

  unsigned steps_ = 0;
};

}  // namespace evenkeel
