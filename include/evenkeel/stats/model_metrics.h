// What responses of models reported, by pool and model.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>

#include "evenkeel/stats/counter.h"
#include "evenkeel/stats/histogram.h"
#include "evenkeel/stats/label_index.h"

namespace evenkeel {

enum class TokenDirection : std::uint8_t {
  input,   ///< of prompts
  output,  ///< generated
  cached,  ///< of prompts, found in an engine's cache: part of `input`
};

inline constexpr std::size_t token_direction_count = 3;

const char* to_string(TokenDirection direction);

/// Tokens that engines reported.
class TokenCounters {
 public:
  void add(TokenDirection direction, std::uint64_t tokens) {
    counters_[static_cast<std::size_t>(direction)].add(tokens);
  }
  std::uint64_t value(TokenDirection direction) const {
    return counters_[static_cast<std::size_t>(direction)].value();
  }
  void clear() {
    for (Counter& counter : counters_) counter.clear();
  }

 private:
  std::array<Counter, token_direction_count> counters_;
};

/// OpenTelemetry's gen_ai.server.time_per_output_token, with two bounds before and two after.
inline constexpr BucketBounds token_bounds({.0025, .005, .01, .025, .05, .075, .1, .15, .2, .3, .4,
                                            .5, .75, 1, 2.5, 5, 10});

/// Metrics of a model in a pool. Times are of streams only.
struct ModelMetrics {
  TokenCounters tokens;
  /// The time from the request's first byte to its first output.
  TracedHistogram<first_byte_bounds> first_token;
  /// The time between the first output and the last, by tokens.
  TracedHistogram<token_bounds> per_output_token;
  Histogram<token_bounds> gap;  ///< between outputs that did not arrive together

  void clear() {
    tokens.clear();
    first_token.clear();
    per_output_token.clear();
    gap.clear();
  }
};

/// One worker's copy of the models in LabelIndex. Thread: one.
class ModelNames {
 public:
  explicit ModelNames(LabelIndex& index) : index_(index) {}

  /// The index of a name, also of one that is new. Takes a lock only for a name that this worker
  /// has not met, and for none once the index is full and has not changed.
  std::uint32_t index_of(std::string_view name);

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view name) const {
      return std::hash<std::string_view>()(name);
    }
  };

  LabelIndex& index_;
  std::unordered_map<std::string, std::uint32_t, Hash, std::equal_to<>> known_;
  std::uint32_t version_ = 0;  // of the index, when `known_` was copied
  bool full_ = false;
};

}  // namespace evenkeel
