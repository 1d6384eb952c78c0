// The answer to requests that a server got together, and the part of each.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "evenkeel/http/inference_info.h"
#include "evenkeel/inference/batch_body.h"

namespace evenkeel {

/// One request's share of a batch.
struct BatchShare {
  std::uint64_t first_row = 0;  ///< of the batch
  std::uint64_t rows = 0;
  std::uint64_t tokens_before = 0;  ///< of the shares before this one: see `share_tokens`
  std::uint64_t tokens = 0;
  std::string_view id = {};  ///< its own, in JSON; empty: it has none
};

/// How many tokens a request has, as far as that is known before the server has counted.
struct TokenWeight {
  std::uint64_t tokens = 0;
  bool is_exact = false;  ///< they were given as token ids
};

/// Gives each share its tokens of the `total` that the server has counted: exact numbers as they
/// are, if the sum allows it, and the rest in proportion, so that all shares make up the total.
/// REQUIRES: as many shares as weights.
void share_tokens(std::uint64_t total, std::span<const TokenWeight> weights,
                  std::span<BatchShare> shares);

/// An answer of status 200. What is cut from it keeps its bytes.
class BatchAnswer {
 public:
  /// Returns nothing if it is not JSON, or does not have one output for each of the batch's `rows`.
  static std::optional<BatchAnswer> read(BatchApi api, std::string bytes, std::uint64_t rows);

  /// The tokens of all prompts, as `usage` has them.
  std::optional<std::uint64_t> prompt_tokens() const { return prompt_tokens_; }
  /// The answer to one request: all members of the whole answer, with its outputs alone, numbered
  /// from 0, its rows and its id. Whole numbers in `usage` are divided as the tokens of the shares
  /// are, of which `total_tokens` is the sum.
  std::string part(const BatchShare& share, std::uint64_t total_tokens) const;

 private:
  class EmbeddingsReader;
  class KserveReader;

  /// What belongs to one row: an item of `data`, or some values of a tensor.
  struct Output {
    BodyRange place;
    BodyRange index = {};  // empty: it has none
  };
  /// A part of the answer that is not the same for all.
  struct Slot {
    enum class Kind : std::uint8_t { outputs, rows, own, usage };
    Kind kind = Kind::outputs;
    BodyRange place;
    std::size_t first_output = 0;  // of `outputs`: that of row 0
    std::uint64_t count = 0;       // of `usage`: the number
  };

  explicit BatchAnswer(std::string bytes) : bytes_(std::move(bytes)) {}
  std::string_view between(std::uint64_t begin, std::uint64_t end) const {
    return std::string_view(bytes_).substr(begin, end - begin);
  }
  void append_outputs(std::string& out, const Slot& slot, const BatchShare& share) const;

  std::string bytes_;
  std::vector<Slot> slots_;  // in the order of their places
  std::vector<Output> outputs_;
  std::optional<std::uint64_t> prompt_tokens_;
};

}  // namespace evenkeel
