// Reads a ModelInferRequest in gRPC's framing while it arrives.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "inference/read_only_request.h"

namespace evenkeel {

/// Keeps the small fields of the first message and skips tensors, whose sizes it counts. Messages
/// that are compressed or malformed are not read, and are no error: the engine's own is the better
/// one.
class KserveGrpcRequest final : public ReadOnlyRequest {
 public:
  explicit KserveGrpcRequest(InferenceRequest& into) : into_(into) {}

  bool read(std::string_view bytes) override;
  bool finish() override;
  void stop() override;
  bool done() const override { return phase_ == Phase::ended; }
  const Error& error() const override { return error_; }

 private:
  enum class Phase : std::uint8_t { prefix, tag, integer, length, payload, ended };
  enum class Use : std::uint8_t { skip, keep };
  /// A message: the request, or one of its input tensors.
  struct Message {
    std::uint64_t bytes_left = 0;
    std::string kept;  // its fields that matter, as they were sent
  };

  void read_prefix(char c);
  void read_varint(char c);
  void on_tag();
  void on_length();
  Use use_of(std::uint64_t field);
  void read_payload(std::string_view& bytes);
  void keep_field();
  void end_field();
  void begin_tensor();
  void end_tensor();
  void consume(std::uint64_t count);
  Message& message() { return in_tensor_ ? tensor_ : request_; }

  InferenceRequest& into_;
  Phase phase_ = Phase::prefix;
  std::uint8_t prefix_bytes_ = 0;
  bool complete_ = false;
  bool lost_ = false;  // what follows may say something else: nothing is known of the request
  bool settled_ = false;
  bool in_tensor_ = false;
  Message request_;
  Message tensor_;
  std::uint64_t varint_ = 0;
  int varint_bits_ = 0;
  std::uint64_t tag_ = 0;
  std::uint64_t payload_left_ = 0;
  Use use_ = Use::skip;
  std::string field_;  // the payload that is kept
  std::uint64_t contents_bytes_ = 0;
  std::uint64_t raw_bytes_ = 0;
  std::uint64_t typed_bytes_ = 0;
  Error error_;
};

}  // namespace evenkeel
