// What a new prompt costs the streams that an engine generates already.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace evenkeel {

/// The slack of each stream on one backend: the seconds that it can lose before its mean time per
/// output token exceeds its target. A prompt that takes S seconds is expected to cause
///
///   X(S) = sum over streams with slack > 0 of min(1, S / slack)
///
/// violations. O(log n) with the slacks sorted and the sums of 1 / slack kept.
///
/// Thread: one at a time. Allocates nothing once it has had its largest number of streams.
class StreamSlack {
 public:
  void clear() { slack_.clear(); }
  /// Streams that are late already lose nothing more, and are left out.
  void add(double seconds) {
    if (seconds > 0) slack_.push_back(seconds);
  }
  /// Sorts the slacks. REQUIRES: after the last `add`.
  void sort() {
    std::sort(slack_.begin(), slack_.end());
    inverse_above_.resize(slack_.size() + 1);
    inverse_above_.back() = 0;
    for (std::size_t i = slack_.size(); i-- > 0;) {
      inverse_above_[i] = inverse_above_[i + 1] + 1 / slack_[i];
    }
  }
  /// X. REQUIRES: sorted.
  double violations(double seconds) const {
    if (slack_.empty()) return 0;
    const auto above = std::upper_bound(slack_.begin(), slack_.end(), seconds);
    const auto index = static_cast<std::size_t>(above - slack_.begin());
    return static_cast<double>(index) + seconds * inverse_above_[index];
  }

 private:
  std::vector<double> slack_;
  std::vector<double> inverse_above_;
};

}  // namespace evenkeel
