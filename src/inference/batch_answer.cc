#include "evenkeel/inference/batch_answer.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "inference/json_pieces.h"

namespace evenkeel {
namespace {

using json::Token;

/// `part` of `whole`, of a number: rounded down. More than 64 bits while it is computed.
std::uint64_t scaled(std::uint64_t number, std::uint64_t part, std::uint64_t whole) {
  __extension__ using Wide = unsigned __int128;
  return static_cast<std::uint64_t>(Wide{number} * part / whole);
}

/// The part of a number that falls to a share: shares that follow each other leave nothing.
std::uint64_t part_of(std::uint64_t number, std::uint64_t before, std::uint64_t own,
                      std::uint64_t all) {
  return scaled(number, before + own, all) - scaled(number, before, all);
}

std::uint64_t sum_of(std::span<const TokenWeight> weights, bool exact_ones) {
  std::uint64_t sum = 0;
  for (const TokenWeight& each : weights) {
    if (each.is_exact || !exact_ones) sum += each.tokens;
  }
  return sum;
}

}  // namespace

void share_tokens(std::uint64_t total, std::span<const TokenWeight> weights,
                  std::span<BatchShare> shares) {
  const std::uint64_t all = sum_of(weights, false);
  const std::uint64_t exact = sum_of(weights, true);
  // If there is no text, the exact numbers must make up the total.
  const bool has_text = std::ranges::any_of(
      weights, [](const TokenWeight& each) { return !each.is_exact && each.tokens > 0; });
  const bool counts_exact = has_text ? exact <= total : exact == total;
  const std::uint64_t divided = counts_exact ? total - exact : total;
  const std::uint64_t divisor = std::max<std::uint64_t>(counts_exact ? all - exact : all, 1);
  std::uint64_t before = 0;
  std::uint64_t given = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const TokenWeight& weight = weights[i];
    BatchShare& share = shares[i];
    share.tokens_before = given;
    if (weight.is_exact && counts_exact) {
      share.tokens = weight.tokens;
    } else {
      share.tokens = part_of(divided, before, weight.tokens, divisor);
      before += weight.tokens;
    }
    given += share.tokens;
  }
}

/// Finds the items of `data`, and the numbers in `usage`.
class BatchAnswer::EmbeddingsReader {
 public:
  EmbeddingsReader(BatchAnswer& into, std::uint64_t rows)
      : into_(into), rows_(rows), pieces_(into.bytes_) {}

  bool read() {
    if (pieces_.next() != Token::object_begin) return false;
    bool has_data = false;
    bool has_usage = false;
    while (const auto key = pieces_.next_key()) {
      if (*key == "data") {
        if (std::exchange(has_data, true) || !read_data()) return false;
      } else if (*key == "usage") {
        const Token token = pieces_.next();
        if (std::exchange(has_usage, true)) return false;
        if (token == Token::object_begin) {
          read_usage(true);
        } else {
          pieces_.skip(token);
        }
      } else {
        pieces_.skip_value();
      }
    }
    return pieces_.ends() && has_data && sort();
  }

 private:
  bool read_data() {
    if (pieces_.next() != Token::array_begin) return false;
    const std::uint64_t begin = pieces_.offset();
    Token token = pieces_.next();
    for (; token == Token::object_begin; token = pieces_.next()) {
      if (!read_item() || into_.outputs_.size() > rows_) return false;
    }
    into_.slots_.push_back({.kind = Slot::Kind::outputs, .place = {begin, pieces_.offset() - 1}});
    return token == Token::array_end;
  }

  bool read_item() {
    Output output{.place = {pieces_.offset() - 1, 0}};
    std::optional<std::uint64_t> index;
    while (const auto key = pieces_.next_key()) {
      const Token token = pieces_.next();
      if (*key == "index" && token == Token::number) {
        if (index) return false;
        index = pieces_.count();
        output.index = pieces_.value();
        if (!index) return false;
      } else {
        pieces_.skip(token);
      }
    }
    output.place.end = pieces_.offset();
    indices_.push_back(index.value_or(into_.outputs_.size()));
    into_.outputs_.push_back(output);
    return !pieces_.failed();
  }

  void read_usage(bool is_outermost) {
    while (const auto key = pieces_.next_key()) {
      const bool is_prompt = is_outermost && *key == "prompt_tokens";
      const Token token = pieces_.next();
      if (token == Token::object_begin) {
        read_usage(false);
        continue;
      }
      const BodyRange place = pieces_.skip(token);
      if (token != Token::number) continue;
      const auto count = pieces_.count();
      if (!count) continue;
      into_.slots_.push_back({.kind = Slot::Kind::usage, .place = place, .count = *count});
      if (is_prompt) into_.prompt_tokens_ = count;
    }
  }

  /// Puts the outputs into the order of their indices. False: some are missing.
  bool sort() {
    std::vector<Output>& outputs = into_.outputs_;
    if (outputs.size() != rows_) return false;
    std::vector<Output> sorted(outputs.size());
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      if (indices_[i] >= sorted.size() || sorted[indices_[i]].place.end > 0) return false;
      sorted[indices_[i]] = outputs[i];
    }
    outputs = std::move(sorted);
    return true;
  }

  BatchAnswer& into_;
  const std::uint64_t rows_;
  JsonPieces pieces_;
  std::vector<std::uint64_t> indices_;  // of the outputs
};

/// Finds the tensors in `outputs`, and `id`.
class BatchAnswer::KserveReader {
 public:
  KserveReader(BatchAnswer& into, std::uint64_t rows)
      : into_(into), rows_(rows), pieces_(into.bytes_) {}

  bool read() {
    if (pieces_.next() != Token::object_begin) return false;
    bool has_outputs = false;
    while (const auto key = pieces_.next_key()) {
      if (*key == "outputs") {
        if (std::exchange(has_outputs, true) || !read_outputs()) return false;
        continue;
      }
      const Token token = pieces_.next();
      const BodyRange place = pieces_.skip(token);
      if (*key == "id" && token == Token::text)
        into_.slots_.push_back({.kind = Slot::Kind::own, .place = place});
    }
    return pieces_.ends() && has_outputs;
  }

 private:
  bool read_outputs() {
    if (pieces_.next() != Token::array_begin) return false;
    Token token = pieces_.next();
    for (; token == Token::object_begin; token = pieces_.next()) {
      if (!read_tensor()) return false;
    }
    return token == Token::array_end;
  }

  bool read_tensor() {
    bool has_shape = false;
    bool has_data = false;
    while (const auto key = pieces_.next_key()) {
      if (*key == "shape") {
        if (std::exchange(has_shape, true) || !read_shape()) return false;
      } else if (*key == "data") {
        if (std::exchange(has_data, true) || !read_data()) return false;
      } else {
        pieces_.skip_value();
      }
    }
    return !pieces_.failed() && has_shape && has_data;
  }

  bool read_shape() {
    if (pieces_.next() != Token::array_begin) return false;
    if (pieces_.next() != Token::number || pieces_.count() != rows_) return false;
    into_.slots_.push_back({.kind = Slot::Kind::rows, .place = pieces_.value()});
    Token token = pieces_.next();
    while (token == Token::number) token = pieces_.next();
    return token == Token::array_end;
  }

  /// True if the values make up whole rows. Reads them twice: how many make up a row is known when
  /// they have been counted.
  bool read_data() {
    if (pieces_.next() != Token::array_begin) return false;
    Slot slot{.place = {pieces_.offset(), 0}, .first_output = into_.outputs_.size()};
    JsonPieces again = pieces_;
    std::uint64_t items = 0;
    Token token = pieces_.next();
    const bool is_nested = token == Token::array_begin;
    for (; !pieces_.failed() && token != Token::array_end; token = pieces_.next()) {
      pieces_.skip(token);
      ++items;
    }
    if (pieces_.failed() || items == 0 || items % rows_ != 0) return false;
    if (is_nested && items != rows_) return false;
    slot.place.end = pieces_.offset() - 1;
    into_.slots_.push_back(slot);
    for (std::uint64_t row = 0; row < rows_; ++row) {
      BodyRange place = again.skip_value();
      for (std::uint64_t i = 1; i < items / rows_; ++i) place.end = again.skip_value().end;
      into_.outputs_.push_back({.place = place});
    }
    return true;
  }

  BatchAnswer& into_;
  const std::uint64_t rows_;
  JsonPieces pieces_;
};

std::optional<BatchAnswer> BatchAnswer::read(BatchApi api, std::string bytes, std::uint64_t rows) {
  BatchAnswer answer(std::move(bytes));
  const bool is_read = api == BatchApi::embeddings ? EmbeddingsReader(answer, rows).read()
                                                   : KserveReader(answer, rows).read();
  if (!is_read) return std::nullopt;
  return answer;
}

void BatchAnswer::append_outputs(std::string& out, const Slot& slot,
                                 const BatchShare& share) const {
  for (std::size_t i = 0; i < share.rows; ++i) {
    const Output& output = outputs_[slot.first_output + share.first_row + i];
    if (i > 0) out += ',';
    if (output.index.end == 0) {
      out += between(output.place.begin, output.place.end);
      continue;
    }
    out += between(output.place.begin, output.index.begin);
    out += std::to_string(i);
    out += between(output.index.end, output.place.end);
  }
}

std::string BatchAnswer::part(const BatchShare& share, std::uint64_t total_tokens) const {
  std::string part;
  std::uint64_t from = 0;
  for (const Slot& slot : slots_) {
    part += between(from, slot.place.begin);
    from = slot.place.end;
    switch (slot.kind) {
      case Slot::Kind::outputs: append_outputs(part, slot, share); break;
      case Slot::Kind::rows: part += std::to_string(share.rows); break;
      case Slot::Kind::own:
        part += share.id.empty() ? between(slot.place.begin, slot.place.end) : share.id;
        break;
      case Slot::Kind::usage:
        part += std::to_string(part_of(slot.count, share.tokens_before, share.tokens,
                                       std::max<std::uint64_t>(total_tokens, 1)));
        break;
    }
  }
  part += between(from, bytes_.size());
  return part;
}

}  // namespace evenkeel
