// What to think of those of whom nothing is known.
#pragma once

#include <cmath>

namespace evenkeel {

/// Presumes of the unknown what was seen of the others lately: who says nothing is neither
/// preferred nor punished for it.
///
/// Thread: one worker's own.
class Presumed {
 public:
  /// `otherwise`: while nobody has said anything.
  explicit Presumed(double otherwise) : mean_(otherwise) {}

  /// The value itself, or what stands for it if it is NaN.
  double operator()(double value) {
    if (std::isnan(value)) return mean_;
    mean_ = seen_ ? mean_ + (value - mean_) * gain : value;
    seen_ = true;
    return value;
  }
  double value() const { return mean_; }

 private:
  static constexpr double gain = 1.0 / 64;

  double mean_;
  bool seen_ = false;
};

}  // namespace evenkeel
