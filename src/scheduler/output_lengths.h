// How long outputs still get: requests of one class are alike, and of the others the past tells.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "evenkeel/scheduler/learned_scheduler.h"
#include "scheduler/associative_table.h"

namespace evenkeel {

/// Lengths of finished outputs, in tokens.
///
///   remaining(class, g) = mean of the class - g          with 5 outputs of the class or more
///                       = mean of the last 400 outputs that are longer than g, minus g
///
/// A class is what makes requests alike: the first blocks of their prompts, a bucket of max_tokens.
/// The second form is the mean residual life of an empirical distribution.
///
/// Thread: one at a time. Allocates nothing after the constructor.
class OutputLengths {
 public:
  static constexpr std::size_t history = 400;
  static constexpr std::size_t max_classes = 4096;

  OutputLengths();

  void learn(std::uint64_t output_class, double tokens);
  /// Appends what was learned, for which there is room: `max_classes` and `history`.
  void learned(LearnedTraffic& into) const;
  /// Continues with what another process has learned, as if it had seen few outputs of each class.
  void restore(const LearnedTraffic& learned);
  /// Tokens that an output of the class is expected to have yet, at least 1; `generated` so far.
  double remaining(std::uint64_t output_class, double generated) const;
  /// The mean of the last outputs; 200 before the first.
  double mean() const;

 private:
  static constexpr std::size_t refresh_after = 50;  // outputs

  struct ClassMean {
    double outputs = 0;
    double mean = 0;
  };
  double recent(std::size_t number) const { return recent_[number % recent_.size()]; }
  void remember(double tokens);
  void sort_recent() const;

  AssociativeTable<ClassMean> classes_;
  std::array<double, history + refresh_after> recent_{};  // a ring, by number
  std::size_t learned_ = 0;
  double recent_sum_ = 0;  // of the last `history`
  // The last outputs before number `due_`, sorted only when one of an unknown class asks for them.
  std::size_t due_ = 0;
  mutable std::size_t sorted_at_ = 0;  // the `due_` that they were sorted for
  mutable std::vector<double> sorted_;
  mutable std::vector<double> sums_above_;  // sums_above_[i]: of sorted_[i] and all after it
};

}  // namespace evenkeel
