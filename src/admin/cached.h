// A value that is kept for a while.
#pragma once

#include "evenkeel/base/clock.h"

namespace evenkeel {

/// A value that is made when it is asked for, and made anew once it is too old.
template <class Value>
class Cached {
 public:
  /// Returns the value of `make()`, or the last one as long as it is fresh: for `lifetime(took)`
  /// since it was made, which took that long.
  template <class Make, class Lifetime, class Now = Instant (*)()>
  Value& get(const Make& make, const Lifetime& lifetime, const Now& now = &Clock::now) {
    const Instant began = now();
    if (began < fresh_until_) return value_;
    value_ = make();
    const Instant made = now();
    fresh_until_ = made + lifetime(made - began);
    return value_;
  }

 private:
  Value value_{};
  Instant fresh_until_{};
};

}  // namespace evenkeel
