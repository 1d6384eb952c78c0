// The chunked transfer coding (RFC 9112 7.1): strict decoding in place, encoding of size lines.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "evenkeel/http/fields.h"

namespace evenkeel {

/// Decodes a chunked body in the buffer that it was read into: joins the payloads of one read into
/// one run of bytes. Checks and drops chunk extensions. Limits: 256 bytes of extensions per chunk,
/// 4 KiB per message; 8 KiB and 64 fields of trailers.
class ChunkedDecoder {
 public:
  enum class Step : std::uint8_t { more, done, failed };
  struct Decoded {
    Step step;
    std::string_view payload;  ///< within the given bytes
    std::size_t consumed = 0;  ///< of the given bytes; what is left follows the message
  };

  Decoded decode(char* bytes, std::size_t size);

  /// The trailer section without the fields that are forbidden in trailers (framing, routing,
  /// authentication, content).
  Fields& trailers() { return trailers_; }
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

  bool step(char c);
  bool step_size_line(char c);
  bool step_extension(char c);
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

/// Writes a size line such as "1a\r\n" to `place`, which has room for 18 bytes; returns its length.
std::size_t write_chunk_size(char* out, std::size_t payload);

}  // namespace evenkeel
