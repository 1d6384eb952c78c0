// When a model's stream begins with output, and how fast more follows.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "evenkeel/base/clock.h"
#include "evenkeel/base/pool_allocator.h"
#include "evenkeel/http/message.h"
#include "evenkeel/inference/response_reader.h"

namespace evenkeel {

/// Reads a stream up to its first output, before which servers send comments, pings, roles and
/// progress; after that a few chunks about twice a second, to measure the time between outputs. Of
/// gRPC every chunk: messages have nothing but their lengths to tell where they begin.
class StreamPace : public Pooled {
 public:
  /// Null if the response is no stream whose output can be told from the rest.
  static std::unique_ptr<StreamPace> of(std::optional<ResponseFormat> format);

  explicit StreamPace(ResponseFormat format)
      : reader_(ResponseReader::create(format, response_)),
        may_skip_(format != ResponseFormat::grpc_stream) {}

  /// Returns the time between two outputs if these bytes complete a measurement. `last`: no more
  /// follow.
  std::optional<Duration> read(std::string_view bytes, bool last, Instant now);
  /// True if there was output.
  bool has_begun() const { return response_.output_events > 0; }
  /// Chunks that need not be read now.
  int chunks_to_skip() const { return chunks_to_skip_; }

 private:
  InferenceResponse response_;
  std::unique_ptr<ResponseReader> reader_;
  const bool may_skip_;
  bool measures_ = false;
  std::uint32_t first_events_ = 0;  // up to the first output of the measurement
  Instant first_at_{};
  int chunks_to_skip_ = 0;
  int chunks_to_count_ = 0;  // without measuring
};

}  // namespace evenkeel
