#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace evenkeel::bench {

// The parts of an HTTP/1.1 head that the two ends of a measurement need. Fast and trusting, since
// the peers are our own.
struct HttpHead {
  std::size_t size_bytes = 0;   // with the blank line
  std::string_view start_line;  // points into the scanned bytes
  std::optional<std::uint64_t> content_length;
  bool chunked = false;
  bool close = false;  // "Connection: close"
  bool expects_continue = false;
};

// The head at the front of `bytes`; nothing while it is incomplete.
std::optional<HttpHead> parse_head(std::string_view bytes);

std::string_view request_target(std::string_view request_line);  // "" when malformed
int status_code(std::string_view status_line);                   // 0 when malformed

// Finds the end of a body that arrives in pieces.
class BodyParser {
 public:
  static BodyParser none() { return BodyParser(State::kDone, 0); }
  static BodyParser of_length(std::uint64_t bytes);
  static BodyParser chunked() { return BodyParser(State::kSize, 0); }
  static BodyParser until_close() { return BodyParser(State::kUntilClose, 0); }

  struct Step {
    std::size_t consumed = 0;
    std::string_view payload;  // the part of the consumed bytes that is body
  };

  // Consumes bytes from the front of `bytes`; call it until done() or nothing is left.
  // REQUIRES: !done() && !broken()
  Step step(std::string_view bytes);

  // The rest of a Content-Length body. It may be discarded unread and then reported with skip().
  std::uint64_t length_left() const { return state_ == State::kLength ? left_ : 0; }
  void skip(std::uint64_t bytes);

  bool done() const { return state_ == State::kDone; }
  bool broken() const { return state_ == State::kBroken; }
  bool ends_with_connection() const { return state_ == State::kUntilClose; }

 private:
  enum class State {
    kLength,
    kUntilClose,
    kSize,
    kExtension,
    kData,
    kDataEnd,
    kTrailerStart,
    kTrailer,
    kDone,
    kBroken
  };

  BodyParser(State state, std::uint64_t left) : state_(state), left_(left) {}
  Step take_data(std::string_view bytes, State after);
  void take_framing(char byte);
  void take_size(char byte);

  State state_;
  std::uint64_t left_;
};

}  // namespace evenkeel::bench
