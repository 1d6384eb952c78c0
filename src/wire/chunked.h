// The chunked transfer coding (RFC 9112 7.1): decoding in place, strictly; encoding of size lines.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "evenkeel/http/fields.h"

namespace evenkeel {

/// Decodes a chunked body, in the buffer that it was read into: the payloads of one read become one
/// run of bytes, whatever the chunks were. Extensions are checked and dropped. Bounded: 256 bytes
/// of extensions a chunk, 4 KiB a message; 8 KiB and 64 fields of trailers.
class ChunkedDecoder {
 public:
  enum class Step : std::uint8_t { more, done, failed };
  struct Decoded {
    Step step;
    std::string_view payload;  ///< within the given bytes
    std::size_t consumed = 0;  ///< of the given bytes; the rest follows the message
  };

  Decoded decode(char* bytes, std::size_t size);

  /// After `done`: the trailer section, without fields that a trailer may not hold (framing,
  /// routing, authentication, content).
  const Fields& trailers() const { return trailers_; }
  const char* detail() const { return detail_; }

 private:
  enum class State : std::uint8_t {
    size_start,
    size,
    extension_name_start,
    extension_name,
    extension_value_start,
    extension_token,
    extension_quoted,
    extension_escaped,
    extension_after,
    size_lf,
    data,
    data_cr,
    data_lf,
    trailer_line,
    trailer_lf,
    complete,
  };

  bool step_size_line(char c);
  bool step_trailer(char c);
  bool end_trailer_line();
  bool fail(const char* detail);

  State state_ = State::size_start;
  std::uint64_t left_ = 0;  // of the current chunk's payload
  unsigned digits_ = 0;
  std::uint32_t extension_bytes_ = 0;  // of this chunk
  std::uint32_t extension_total_ = 0;
  std::size_t trailer_bytes_ = 0;
  std::string line_;  // of the trailer section, while it arrives
  Fields trailers_;
  const char* detail_ = "";
};

/// "1a\r\n" into `place`, which has room for 18; how long it is.
std::size_t write_chunk_size(char* out, std::size_t payload);

}  // namespace evenkeel
