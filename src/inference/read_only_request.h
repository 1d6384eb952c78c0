// What the readers of bodies that are not plain JSON have in common.
#pragma once

#include "evenkeel/inference/request_reader.h"

namespace evenkeel {

/// Reads a body in which nothing can be replaced: it names no places.
class ReadOnlyRequest : public RequestReader {
 public:
  const std::vector<BodyRange>& model_values() const final { return none_; }
  std::optional<BodyRange> stream_options() const final { return std::nullopt; }
  std::optional<std::uint64_t> object_begin() const final { return std::nullopt; }

 private:
  std::vector<BodyRange> none_;
};

}  // namespace evenkeel
