// What to think of those of whom nothing is known.
#pragma once

#include <cmath>

namespace evenkeel {

/// Presumes of the unknown what was seen of the others lately: who says nothing is neither
/// preferred nor punished for it.
///
/// Thread: one worker's own.
class MeanFallback {
 public:
  /// `otherwise`: while nobody has said anything.
  explicit MeanFallback(double initial) : mean_(initial) {}

  /// The value itself, or what stands for it if it is NaN.
  double operator()(double value) {
    if (std::isnan(value)) return mean_;
    mean_ = has_value_ ? mean_ + (value - mean_) * gain : value;
    has_value_ = true;
    return value;
  }
  double value() const { return mean_; }

 private:
  static constexpr double gain = 1.0 / 64;

  double mean_;
  bool has_value_ = false;
};

}  // namespace evenkeel
