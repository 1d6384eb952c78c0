// gRPC's framing of messages: a flag, a length of four bytes, the message
// (grpc/doc/PROTOCOL-HTTP2.md, Length-Prefixed-Message).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace evenkeel {

/// Bytes before every message.
inline constexpr std::size_t grpc_prefix_bytes = 5;

/// Splits a stream of bytes, which may come in any pieces, into messages.
class GrpcMessageReader {
 public:
  /// A message that is larger than this is refused as soon as its length is known.
  explicit GrpcMessageReader(std::size_t max_message_bytes)
      : max_message_bytes_(max_message_bytes) {}

  enum class Step : std::uint8_t {
    more,       ///< `bytes` is used up
    message,    ///< `message()` is the next one; `bytes` begins after it
    too_large,  ///< nothing more can be read then, as after `malformed`
    malformed,  ///< a flag that is neither 0 nor 1
  };
  /// Removes what belongs to the next message from the front of `bytes`.
  Step read(std::string_view& bytes);

  /// Valid until the next `read`, and as long as the bytes of the last one.
  std::string_view message() const { return message_; }
  /// True if the message has to be decompressed as `grpc-encoding` says.
  bool compressed() const { return compressed_; }
  /// True if the stream is between two messages.
  bool at_boundary() const { return consumed_ || buffered_.empty(); }

 private:
  std::size_t max_message_bytes_;
  std::string buffered_;  // an incomplete message, prefix included
  std::string_view message_;
  bool compressed_ = false;
  bool consumed_ = false;  // gathered_ holds the last message returned
};

/// Appends one message, uncompressed. REQUIRES: message.size() < 2^32.
void append_grpc_frame(std::string& out, std::string_view message);

}  // namespace evenkeel
