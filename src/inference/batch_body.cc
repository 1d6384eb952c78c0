#include "evenkeel/inference/batch_body.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "inference/json_pieces.h"

namespace evenkeel {
namespace {

using json::Token;

constexpr std::uint64_t max_rows = 1'000'000;

std::uint64_t tokens_of_text(std::uint64_t bytes, double bytes_per_token) {
  return static_cast<std::uint64_t>(std::ceil(static_cast<double>(bytes) / bytes_per_token));
}

}  // namespace

/// Finds `input`: a text, token ids, or a list of either.
class BatchBody::EmbeddingsReader {
 public:
  explicit EmbeddingsReader(BatchBody& into) : into_(into), pieces_(into.bytes_) {}

  bool read() {
    if (pieces_.next() != Token::object_begin) return false;
    while (const auto key = pieces_.next_key()) {
      if (*key != "input") {
        pieces_.skip_value();
      } else if (!into_.slots_.empty() || !read_input()) {
        return false;
      }
    }
    return pieces_.ends() && into_.rows_ > 0;
  }

 private:
  bool read_input() {
    const Token token = pieces_.next();
    if (token == Token::text) {
      add_text();
      add_slot(pieces_.value(), pieces_.value());
      into_.form_ = "text";
      return true;
    }
    if (token != Token::array_begin) return false;
    const std::uint64_t begin = pieces_.offset() - 1;
    const Token first = pieces_.next();
    if (first == Token::number) {
      if (!read_ids(first)) return false;
      const BodyRange whole{begin, pieces_.offset()};
      add_slot(whole, whole);
      return true;
    }
    return read_list(begin, first);
  }

  bool read_list(std::uint64_t begin, Token first) {
    if (first != Token::text && first != Token::array_begin) return false;
    BodyRange items;
    items.begin = first == Token::text ? pieces_.value().begin : pieces_.offset() - 1;
    for (Token token = first; token != Token::array_end; token = pieces_.next()) {
      if (token != first) return false;
      if (token == Token::text) {
        add_text();
      } else if (!read_ids(pieces_.next())) {
        return false;
      }
      items.end = pieces_.offset();
    }
    if (first == Token::text) into_.form_ = "text";
    add_slot({begin, pieces_.offset()}, items);
    return true;
  }

  /// Reads the rest of one list of token ids.
  bool read_ids(Token token) {
    std::uint64_t count = 0;
    for (; token != Token::array_end; token = pieces_.next()) {
      if (token != Token::number || !pieces_.count()) return false;
      ++count;
    }
    if (count == 0) return false;
    ++into_.rows_;
    into_.form_ = "ids";
    into_.token_ids_ += count;
    into_.max_token_ids_ = std::max(into_.max_token_ids_, count);
    return true;
  }

  void add_text() {
    const std::uint64_t bytes = pieces_.scanner().decoded_bytes();
    ++into_.rows_;
    into_.text_bytes_ += bytes;
    into_.max_text_bytes_ = std::max(into_.max_text_bytes_, bytes);
  }

  void add_slot(const BodyRange& place, const BodyRange& items) {
    into_.slots_.push_back({.place = place, .items = items, .adds_brackets = true});
  }

  BatchBody& into_;
  JsonPieces pieces_;
};

/// Finds the tensors in `inputs`, and `id`.
class BatchBody::KserveReader {
 public:
  explicit KserveReader(BatchBody& into) : into_(into), pieces_(into.bytes_) {}

  bool read() {
    if (pieces_.next() != Token::object_begin) return false;
    bool has_inputs = false;
    while (const auto key = pieces_.next_key()) {
      if (*key == "inputs") {
        if (std::exchange(has_inputs, true) || !read_inputs()) return false;
      } else if (*key == "id") {
        if (into_.id_.end > 0 || pieces_.next() != Token::text) return false;
        into_.id_ = pieces_.value();
        into_.slots_.push_back({.kind = BatchSlot::Kind::own, .place = into_.id_});
      } else {
        pieces_.skip_value();
      }
    }
    return pieces_.ends() && into_.rows_ > 0;
  }

 private:
  /// One tensor.
  struct Tensor {
    bool has_shape = false;
    bool has_data = false;
    std::uint64_t rows = 0;
    std::uint64_t row_size = 1;  // values in a row, by its shape
    std::uint64_t items = 0;     // of `data`
    std::uint64_t leaves = 0;
    bool is_nested = false;
    bool is_even = true;  // each row has as many values
  };

  bool read_inputs() {
    if (pieces_.next() != Token::array_begin) return false;
    Token token = pieces_.next();
    for (; token == Token::object_begin; token = pieces_.next()) {
      if (!read_tensor()) return false;
    }
    return token == Token::array_end;
  }

  bool read_tensor() {
    Tensor tensor;
    while (const auto key = pieces_.next_key()) {
      if (*key == "shape") {
        if (std::exchange(tensor.has_shape, true) || !read_shape(tensor)) return false;
      } else if (*key == "data") {
        if (std::exchange(tensor.has_data, true) || !read_data(tensor)) return false;
      } else {
        pieces_.skip_value();
      }
    }
    const bool is_known = !pieces_.failed() && tensor.has_shape && tensor.has_data;
    const bool is_first = into_.rows_ == 0;
    if (!is_known || (!is_first && tensor.rows != into_.rows_)) return false;
    // What a request has too much of would be another one's.
    if (tensor.leaves != tensor.rows * tensor.row_size || !tensor.is_even) return false;
    if (tensor.is_nested && tensor.items != tensor.rows) return false;
    into_.rows_ = static_cast<std::uint32_t>(tensor.rows);
    into_.form_ += tensor.is_nested ? 'n' : 'f';
    return true;
  }

  /// True for two dimensions or more: a tensor of one may be one input.
  bool read_shape(Tensor& tensor) {
    if (pieces_.next() != Token::array_begin) return false;
    std::uint64_t dimensions = 0;
    Token token = pieces_.next();
    for (; token == Token::number; token = pieces_.next()) {
      const auto size = pieces_.count();
      if (!size || *size == 0 || *size > max_rows) return false;
      if (dimensions++ == 0) {
        tensor.rows = *size;
        into_.slots_.push_back({.kind = BatchSlot::Kind::rows, .place = pieces_.value()});
      } else {
        tensor.row_size *= *size;
        if (tensor.row_size > into_.bytes_.size()) return false;
      }
    }
    return token == Token::array_end && dimensions > 1;
  }

  bool read_data(Tensor& tensor) {
    if (pieces_.next() != Token::array_begin) return false;
    const std::uint64_t begin = pieces_.offset();
    std::uint64_t first_leaves = 0;
    Token token = pieces_.next();
    tensor.is_nested = token == Token::array_begin;
    BodyRange items{begin, begin};
    for (; !pieces_.failed() && token != Token::array_end; token = pieces_.next()) {
      std::uint64_t leaves = 0;
      const BodyRange item = pieces_.skip(token, &leaves);
      if (tensor.items++ == 0) {
        items.begin = item.begin;
        first_leaves = leaves;
      }
      tensor.is_even = tensor.is_even && leaves == first_leaves &&
                       tensor.is_nested == (token == Token::array_begin);
      tensor.leaves += leaves;
      items.end = item.end;
    }
    into_.slots_.push_back({.place = {begin, pieces_.offset() - 1}, .items = items});
    return !pieces_.failed() && tensor.items > 0;
  }

  BatchBody& into_;
  JsonPieces pieces_;
};

std::optional<BatchBody> BatchBody::read(BatchApi api, std::string bytes) {
  BatchBody body(std::move(bytes));
  const bool is_read =
      api == BatchApi::embeddings ? EmbeddingsReader(body).read() : KserveReader(body).read();
  if (!is_read) return std::nullopt;
  return body;
}

std::uint64_t BatchBody::tokens(double bytes_per_token) const {
  return token_ids_ + tokens_of_text(text_bytes_, bytes_per_token);
}

std::uint64_t BatchBody::max_input_tokens(double bytes_per_token) const {
  return std::max(max_token_ids_, tokens_of_text(max_text_bytes_, bytes_per_token));
}

std::string join_bodies(std::span<const BatchBody* const> bodies) {
  const BatchBody& first = *bodies.front();
  std::uint64_t rows = 0;
  std::size_t size = 0;
  for (const BatchBody* each : bodies) {
    rows += each->rows();
    size += each->bytes().size() + 1;
  }
  std::string joined;
  joined.reserve(size);
  std::uint64_t from = 0;
  for (std::size_t i = 0; i < first.slots_.size(); ++i) {
    const BatchSlot& slot = first.slots_[i];
    joined += first.part({from, slot.place.begin});
    from = slot.place.end;
    switch (slot.kind) {
      case BatchSlot::Kind::own: joined += first.part(slot.place); break;
      case BatchSlot::Kind::rows: joined += std::to_string(rows); break;
      case BatchSlot::Kind::inputs:
        if (slot.adds_brackets) joined += '[';
        for (const BatchBody* each : bodies) {
          if (each != &first) joined += ',';
          joined += each->part(each->slots_[i].items);
        }
        if (slot.adds_brackets) joined += ']';
        break;
    }
  }
  joined += first.part({from, first.bytes_.size()});
  return joined;
}

}  // namespace evenkeel
