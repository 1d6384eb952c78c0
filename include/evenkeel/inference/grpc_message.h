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

/// Cuts a stream of bytes, in whatever pieces it comes, into messages.
class GrpcMessageReader {
 public:
  /// `largest`: a message of more bytes is refused as soon as its length is known.
  explicit GrpcMessageReader(std::size_t max_message_bytes)
      : max_message_bytes_(max_message_bytes) {}

  enum class Step : std::uint8_t {
    more,       ///< `bytes` is used up
    message,    ///< `message()` is the next one; `bytes` begins after it
    too_large,  ///< and nothing further can be read, as after `malformed`
    malformed,  ///< a flag that is neither 0 nor 1
  };
  /// Takes from the front of `bytes` what belongs to the next message.
  Step read(std::string_view& bytes);

  /// Valid until the next `read`, and as long as the bytes that were given to the last one.
  std::string_view message() const { return message_; }
  /// It has to be decompressed as `grpc-encoding` says.
  bool compressed() const { return compressed_; }
  /// A stream that ends here ends between two messages.
  bool at_boundary() const { return consumed_ || buffered_.empty(); }

 private:
  std::size_t max_message_bytes_;
  std::string buffered_;  // of a message that is not all here, prefix included
  std::string_view message_;
  bool compressed_ = false;
  bool consumed_ = false;  // gathered_ holds the message that was given out last
};

/// Appends one message, uncompressed. REQUIRES: message.size() < 2^32.
void append_grpc_frame(std::string& out, std::string_view message);

}  // namespace evenkeel
