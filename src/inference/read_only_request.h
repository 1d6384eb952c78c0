// What the readers of bodies that are not plain JSON have in common.
#pragma once

#include "evenkeel/inference/request_reader.h"

namespace evenkeel {

/// Reads a body in which nothing can be replaced: it names no places.
class ReadOnlyRequest : public RequestReader {
 public:
  std::vector<BodyRange> take_model_values() final { return {}; }
  std::optional<BodyRange> stream_options() const final { return std::nullopt; }
  std::optional<std::uint64_t> object_begin() const final { return std::nullopt; }
};

}  // namespace evenkeel
