// When a model's stream begins with output.
#pragma once

#include <memory>
#include <string_view>

#include "evenkeel/base/clock.h"
#include "evenkeel/base/pool_allocator.h"
#include "evenkeel/http/message.h"
#include "evenkeel/inference/response_reader.h"

namespace evenkeel {

/// Reads a stream up to its first output. Servers send comments, pings, roles and progress long
/// before that.
class StreamBeginning : public Pooled {
 public:
  /// Null if the response is no stream whose output can be told from the rest.
  static std::unique_ptr<StreamBeginning> of(const Request& request, const Response& response);

  explicit StreamBeginning(ResponseFormat format)
      : reader_(ResponseReader::create(format, response_)) {}

  /// True if there was output in these bytes. `last`: no more follow.
  bool read(std::string_view bytes, bool last, Instant now);

 private:
  InferenceResponse response_;
  std::unique_ptr<ResponseReader> reader_;
};

}  // namespace evenkeel
