// Recursive least squares with exponential forgetting: a linear model that follows a server.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>

#include "evenkeel/scheduler/learned_scheduler.h"

namespace evenkeel {

/// y = coefficients . x, for values y > 0 whose noise grows with them. No allocation, N^2 steps.
///
/// Source: Ljung, System Identification, 1999, section 11.2, with noise of variance
/// (noise * prediction)^2 + jitter^2, in seconds. A residual counts as at most `max_residual` times
/// the prediction, so that one stalled request does not move the model. The covariance never
/// exceeds the prior's: without that bound forgetting makes it grow without end in directions that
/// traffic does not excite.
///
/// Thread: one at a time.
template <std::size_t N>
class LeastSquares {
 public:
  using Vector = std::array<double, N>;

  /// `prior`: the coefficients before the first sample, above 0, each with a standard deviation of
  /// its own size. `forgetting`: 0.99 gives the last sample 100 times the weight of the average.
  LeastSquares(const Vector& prior, double forgetting) : forgetting_(forgetting) { reset(prior); }

  void reset(const Vector& prior) {
    coefficients_ = prior;
    max_variance_ = {};
    forget_all();
    samples_ = 0;
    surprises_ = 0;
  }

  LearnedModel<N> learned() const {
    return {.coefficients = coefficients_,
            .max_variance = max_variance_,
            .covariance = covariance_,
            .samples = samples_,
            .weight = weight_};
  }
  /// Continues with what another process has learned, as if it had learned it from `max_weight`
  /// samples at most: that many new ones count for as much. False: it is no such model, and changes
  /// nothing.
  bool restore(const LearnedModel<N>& learned, double max_weight) {
    if (learned.samples == 0 || !is_possible(learned)) return false;
    coefficients_ = learned.coefficients;
    max_variance_ = learned.max_variance;
    covariance_ = learned.covariance;
    samples_ = learned.samples;
    surprises_ = 0;
    const double most = 1 / (1 - forgetting_);
    weight_ = learned.weight >= 0 && learned.weight <= most ? learned.weight : most;
    if (weight_ <= max_weight) return true;
    widen(weight_ / max_weight);
    weight_ = max_weight;
    return true;
  }

  struct Prediction {
    Vector x{};
    double y = 0;
    Vector spread{};      ///< the covariance times x
    double variance = 0;  ///< of y, of what is not known of the coefficients
  };
  Prediction prediction(const Vector& x) const {
    Prediction made{.x = x, .y = dot(coefficients_, x)};
    for (std::size_t i = 0; i < N; ++i) made.spread[i] = dot(covariance_[i], x);
    made.variance = dot(made.spread, x);
    return made;
  }

  /// `jitter`: standard deviation of y that does not grow with it.
  void learn(const Vector& x, double y, double jitter = 0) { learn_from(prediction(x), y, jitter); }
  /// `made`: since the last sample.
  void learn_from(Prediction made, double y, double jitter) {
    const double predicted = std::max(made.y, 1e-6);
    const double error = y - predicted;
    const double limit = max_residual * std::max(predicted, jitter);
    const double residual = std::clamp(error, -limit, limit);

    if (notice_change(error, surprise * predicted + 2 * jitter)) made = prediction(made.x);

    const Vector& spread = made.spread;
    const double deviation = noise * std::max(predicted, least_noisy);
    const double variance = deviation * deviation + jitter * jitter;
    const double gain = 1 / (forgetting_ * variance + made.variance);
    for (std::size_t i = 0; i < N; ++i) coefficients_[i] += spread[i] * gain * residual;
    // Exactly symmetric: forgetting makes a difference between the halves grow without end
    // (Verhaegen, Round-off error propagation in four generally-applicable RLS algorithms, 1989).
    for (std::size_t i = 0; i < N; ++i) {
      for (std::size_t j = i; j < N; ++j) {
        covariance_[i][j] -= spread[i] * gain * spread[j];
        covariance_[j][i] = covariance_[i][j];
      }
    }
    keep_positive();
    forget();
    ++samples_;
    weight_ = 1 + forgetting_ * weight_;
  }

  const Vector& coefficients() const { return coefficients_; }
  std::size_t samples() const { return samples_; }

 private:
  static constexpr double noise = 0.25;
  static constexpr double least_noisy =
      1e-4;  // seconds: smaller predictions have the noise of this one
  static constexpr double max_residual = 0.75;
  static constexpr double surprise = 0.5;  // error / prediction, without jitter
  static constexpr int surprises_of_change = 3;
  static constexpr double rounding = 1e-6;  // relative, of a matrix that many samples have changed

  static double dot(const Vector& a, const Vector& b) {
    double sum = 0;
    for (std::size_t i = 0; i < N; ++i) sum += a[i] * b[i];
    return sum;
  }

  /// Becomes as uncertain as before the first sample.
  void forget_all() {
    weight_ = 0;
    covariance_ = {};
    for (std::size_t i = 0; i < N; ++i) {
      max_variance_[i] = std::max(max_variance_[i], coefficients_[i] * coefficients_[i]);
      covariance_[i][i] = max_variance_[i];
    }
  }

  /// True if several large errors in a row are all to one side: the server is not what it was.
  bool notice_change(double error, double large) {
    if (std::abs(error) < large) {
      surprises_ = 0;
      return false;
    }
    const int direction = error > 0 ? 1 : -1;
    surprises_ = surprises_ * direction > 0 ? surprises_ + direction : direction;
    if (std::abs(surprises_) < surprises_of_change) return false;
    surprises_ = 0;
    forget_all();
    return true;
  }

  /// A coefficient below 0 becomes 0, and the others what they most likely are then (Simon and
  /// Chia, Kalman Filtering with State Equality Constraints, 2002). If the others stayed as they
  /// are, predictions would jump: it is sums of coefficients that samples tell. Much below the
  /// prior the model would diverge.
  void keep_positive() {
    for (std::size_t round = 0; round < N; ++round) {
      const auto least = static_cast<std::size_t>(
          std::min_element(coefficients_.begin(), coefficients_.end()) - coefficients_.begin());
      const double excess = coefficients_[least];
      if (excess >= 0) return;
      for (std::size_t i = 0; i < N; ++i) {
        coefficients_[i] -= covariance_[i][least] / covariance_[least][least] * excess;
      }
      coefficients_[least] = 0;
    }
    for (double& each : coefficients_) each = std::max(each, 0.0);
  }

  void forget() { widen(1 / forgetting_); }

  /// Scales each row and column by `factor` of variance, as far as the prior's variances allow: the
  /// matrix stays positive.
  void widen(double factor) {
    Vector scale{};
    for (std::size_t i = 0; i < N; ++i) {
      const double grown = covariance_[i][i] * factor;
      scale[i] =
          std::sqrt(std::min(factor, grown > 0 ? max_variance_[i] / covariance_[i][i] : 1.0));
    }
    for (std::size_t i = 0; i < N; ++i) {
      for (std::size_t j = i; j < N; ++j) {
        covariance_[i][j] *= scale[i] * scale[j];
        covariance_[j][i] = covariance_[i][j];
      }
    }
  }

  /// Numbers that samples may have left: a covariance is symmetric, and positive but for rounding.
  static bool is_possible(const LearnedModel<N>& learned) {
    constexpr double largest = 1e9;  // seconds for a unit of anything
    const auto& covariance = learned.covariance;
    for (std::size_t i = 0; i < N; ++i) {
      const double most = learned.max_variance[i];
      if (!(learned.coefficients[i] >= 0 && learned.coefficients[i] <= largest)) return false;
      if (!(most > 0 && most <= largest * largest)) return false;
      if (!(covariance[i][i] > 0 && covariance[i][i] <= most * (1 + rounding))) return false;
      for (std::size_t j = 0; j < i; ++j) {
        if (!(covariance[i][j] == covariance[j][i])) return false;
      }
    }
    return is_positive(covariance);
  }
  /// True if Cholesky's decomposition of the correlations exists.
  static bool is_positive(const std::array<Vector, N>& covariance) {
    std::array<Vector, N> root{};
    for (std::size_t i = 0; i < N; ++i) {
      for (std::size_t j = 0; j <= i; ++j) {
        const double scale = std::sqrt(covariance[i][i]) * std::sqrt(covariance[j][j]);
        double left = covariance[i][j] / scale + (i == j ? rounding : 0) - dot(root[i], root[j]);
        if (i == j && !(left > 0)) return false;
        root[i][j] = i == j ? std::sqrt(left) : left / root[j][j];
      }
    }
    return true;
  }

  double forgetting_;
  Vector coefficients_{};
  Vector max_variance_{};
  std::array<Vector, N> covariance_{};
  std::size_t samples_ = 0;
  double weight_ = 0;  // of what is known: samples, of which each before the last counts for less
  int surprises_ = 0;  // in a row; below 0: predictions were too high
};

}  // namespace evenkeel
