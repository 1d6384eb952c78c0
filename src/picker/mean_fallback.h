// Substitutes the mean for unknown values.
#pragma once

#include <cmath>

namespace evenkeel {

/// Replaces an unknown value by the moving average of the known ones, so that a backend is neither
/// preferred nor avoided for what it does not report.
///
/// Thread: one worker's own.
class MeanFallback {
 public:
  /// `initial`: the mean before the first known value.
  explicit MeanFallback(double initial) : mean_(initial) {}

  /// The value, or the mean if the value is NaN. A known value updates the mean.
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
