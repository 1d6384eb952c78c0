// What has come of a message over HTTP/2 and is not read yet, and the window that limits it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "evenkeel/base/buffer.h"
#include "evenkeel/base/clock.h"
#include "evenkeel/http/message.h"
#include "response_buffer.h"

namespace evenkeel {

class Http2Stream;

/// The received bytes of one stream. Lets the peer send more as they are read, and widens the
/// stream's window while that is what limits the peer.
class Http2ReceiveBuffer {
 public:
  /// `budget`: of the client's connection, for a response; null: none.
  Http2ReceiveBuffer(Http2Stream& stream, ConnectionBudget* budget)
      : stream_(stream), charge_(budget) {}

  /// Adds bytes of the body. False: they are more than the window allows.
  bool append(std::string_view bytes);
  /// The message ends with what has come.
  void end() { ended_ = true; }
  bool ended() const { return ended_; }
  /// How many bytes of the body have come in all.
  std::uint64_t received() const { return received_; }

  /// The next bytes, or the end; nothing if neither has come. The bytes of the chunk before are
  /// read.
  std::optional<Chunk> take();
  /// Adapts the window to a reader that keeps up. REQUIRES: `take` has returned nothing.
  void adapt_window();
  /// Goes back to the first byte; false when bytes are no longer held.
  bool rewind();
  /// True if `rewind` will succeed: the whole message is here, in one block.
  bool rewindable() const {
    return reads_ == 0 ? ended_ && blocks_ <= 1 : reads_ == 1 && delivered_last_;
  }

 private:
  bool is_response() const;
  void return_taken();
  void adapt_response_window(std::uint64_t window);
  void widen();
  void narrow();
  std::uint32_t next_block_size(bool tiny) const;

  static constexpr std::size_t max_blocks = 8;

  Http2Stream& stream_;
  bool ended_ = false;
  bool delivered_last_ = false;
  bool rewound_ = false;
  bool wide_ = false;
  bool narrowed_ = false;   // the window is, or becomes, the initial one again for good
  std::uint8_t reads_ = 0;  // chunks returned; stays at 2
  std::uint8_t first_block_ = 0;
  std::uint8_t blocks_ = 0;
  std::size_t taken_ = 0;        // bytes of the last returned chunk, still held
  ResponseCharge charge_;        // for the wide window of a response
  std::uint32_t withholds_ = 0;  // bytes that are still to be read and not returned to the peer
  std::uint64_t received_ = 0;
  std::uint64_t received_before_ = 0;  // before `counts_since_`
  Instant counts_since_{};
  Instant last_fast_{};  // when the peer last sent as much as a window in a short time
  std::array<ReadBuffer, max_blocks> in_;  // a ring
};

}  // namespace evenkeel
