// How many bytes of data one of KServe's tensors has, by what its JSON says of it.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "evenkeel/json/scanner.h"
#include "inference/request_schema.h"

namespace evenkeel {

/// `binary_data_size` if the data follows the JSON; else the size of the shape's elements; of BYTES
/// the text of `data`.
class TensorSize {
 public:
  /// The key of a fact was read: what an earlier one said does not count.
  void clear(Slot slot);
  void set_datatype(std::string_view name);
  void add_text(std::uint64_t bytes) { text_bytes_ += bytes; }
  void set(Slot slot, const json::Number& number);

  std::uint64_t bytes() const;

 private:
  std::uint64_t element_bytes_ = 0;
  std::uint64_t elements_ = 1;
  bool has_shape_ = false;
  bool shape_is_valid_ = true;
  std::uint64_t text_bytes_ = 0;
  std::optional<std::uint64_t> binary_bytes_;
};

}  // namespace evenkeel
