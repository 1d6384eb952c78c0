// Which of the requests that wait make up the next batch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "evenkeel/config/config.h"

namespace evenkeel {

/// What a request adds to a batch.
struct BatchSize {
  std::uint64_t rows = 0;
  std::uint64_t max_input_tokens = 0;  ///< of its longest input; 0: its inputs have no tokens

  /// The two together. Servers pad inputs to the longest one of a batch.
  BatchSize operator+(const BatchSize& other) const;
  std::uint64_t padded_tokens() const { return rows * max_input_tokens; }
  bool fits(const BatchingConfig& config) const {
    return rows <= config.max_size && padded_tokens() <= config.max_tokens;
  }
  /// True if no further input as long as the longest one fits.
  bool is_full(const BatchingConfig& config) const {
    return rows >= config.max_size || (rows + 1) * max_input_tokens > config.max_tokens;
  }
};

/// The positions of those that go together, in order: `first`, and as many others as fit, those
/// whose length is closest to its own before others. REQUIRES: each fits alone.
std::vector<std::size_t> choose_batch(std::span<const BatchSize> waiting, std::size_t first,
                                      const BatchingConfig& config);

}  // namespace evenkeel
