// The frames of an HTTP/2 session on their way out: nghttp2's, with header blocks of our own.
#pragma once

#include <nghttp2/nghttp2.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "evenkeel/base/buffer.h"
#include "evenkeel/base/loop.h"
#include "hpack_encoder.h"

namespace evenkeel {

class Http2Section;

/// Gathers what one write sends. nghttp2 writes HEADERS frames without fields, which are put in
/// here: its own encoder is slower, and copies them.
class Http2Output {
 public:
  Http2Output() = default;
  Http2Output(const Http2Output&) = delete;
  Http2Output& operator=(const Http2Output&) = delete;
  ~Http2Output();

  /// Keeps the fields of a header section that was submitted to nghttp2 without any.
  void queue_section(std::int32_t stream, std::unique_ptr<Http2Section> section);
  /// Takes the oldest section of the stream; null: none.
  std::unique_ptr<Http2Section> take_section(std::int32_t stream);
  /// Applies the size that the peer allows for the table of HPACK.
  void limit_table(std::uint32_t size) { encoder_.limit_table(size); }

  /// Lets nghttp2 write frames until it has none left or there is no room. False: it cannot.
  bool fill(nghttp2_session* session);
  std::string_view written() const { return {out_.data(), size_}; }
  /// Forgets what was written.
  void clear() { size_ = 0; }
  /// Gives the memory back. REQUIRES: nothing is written.
  void release() { out_ = Block(); }

  // ---- DATA, inside nghttp2's callbacks ----

  /// How much of `wanted` bytes fits into a DATA frame now; nothing: not enough to be worth it, so
  /// that what is written has to be sent first.
  std::optional<std::size_t> room_for_data(std::size_t wanted) const;
  /// Writes a DATA frame. REQUIRES: `room_for_data` has said that it fits.
  void put_data(const std::uint8_t* head, std::string_view payload);

 private:
  std::size_t complete_headers(char* frame);
  void continue_section();

  Block out_;
  std::uint32_t size_ = 0;
  Node sections_;  // submitted and not written
  HpackEncoder encoder_;
  std::string unsent_block_;  // the rest of a header block of which a part is written
  std::int32_t unsent_block_stream_ = 0;
};

}  // namespace evenkeel
