// The bodies of requests whose inputs a server may get together, in one request.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "evenkeel/http/inference_info.h"

namespace evenkeel {

/// The APIs whose requests can be joined.
enum class BatchApi : std::uint8_t {
  embeddings,  ///< OpenAI's: `input`
  kserve,      ///< v2 over REST: tensors in JSON, whose first dimension is the batch
};

/// A part of a body in which requests of one batch may differ.
struct BatchSlot {
  enum class Kind : std::uint8_t {
    inputs,  ///< items of a list, which follow each other in the batch
    rows,    ///< how many there are: a whole number
    own,     ///< says nothing of the inputs: the batch has that of its first request
  };
  Kind kind = Kind::inputs;
  BodyRange place;
  BodyRange items = {};        ///< of `inputs`: within its place, or all of it
  bool adds_brackets = false;  ///< of `inputs`: the place is the list with its brackets
};

/// The body of one request, read. Its inputs keep their bytes.
class BatchBody {
 public:
  /// Returns nothing if it is not JSON, or asks for something that is not known here.
  static std::optional<BatchBody> read(BatchApi api, std::string bytes);

  const std::string& bytes() const { return bytes_; }
  /// Inputs of the request; never 0.
  std::uint32_t rows() const { return rows_; }
  /// Calls `visit(std::string_view)` for each part that must be the same in all requests of a
  /// batch.
  template <class Visit>
  void each_common_part(const Visit& visit) const {
    std::uint64_t from = 0;
    for (const BatchSlot& slot : slots_) {
      visit(part({from, slot.place.begin}));
      from = slot.place.end;
    }
    visit(part({from, bytes_.size()}));
    visit(std::string_view(form_));
  }
  /// How many tokens all inputs have, or the longest one, if one has so many bytes of text. 0 for
  /// tensors.
  std::uint64_t tokens(double bytes_per_token) const;
  std::uint64_t max_input_tokens(double bytes_per_token) const;
  /// True if the tokens do not depend on an estimate: all inputs are token ids.
  bool has_token_ids() const { return token_ids_ > 0; }
  /// The value of the request's own id, in JSON; empty: it has none.
  std::string_view id() const { return part(id_); }

 private:
  friend std::string join_bodies(std::span<const BatchBody* const> bodies);
  class EmbeddingsReader;
  class KserveReader;

  explicit BatchBody(std::string bytes) : bytes_(std::move(bytes)) {}
  std::string_view part(const BodyRange& range) const {
    return std::string_view(bytes_).substr(range.begin, range.end - range.begin);
  }

  std::string bytes_;
  std::vector<BatchSlot> slots_;  // in the order of their places
  std::string form_;              // what else must be the same: how inputs are written
  std::uint32_t rows_ = 0;
  std::uint64_t text_bytes_ = 0;
  std::uint64_t max_text_bytes_ = 0;
  std::uint64_t token_ids_ = 0;
  std::uint64_t max_token_ids_ = 0;
  BodyRange id_;
};

/// One body with the inputs of all, in their order. REQUIRES: there is one, and their common parts
/// are the same.
std::string join_bodies(std::span<const BatchBody* const> bodies);

}  // namespace evenkeel
