// Between heads as they stand on the wire of HTTP/1 and messages that no protocol owns: framing and
// hop-by-hop fields come off here, and are put on here, never copied.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "evenkeel/http/message.h"
#include "evenkeel/net/socket.h"
#include "head_parser.h"

namespace evenkeel {

/// How a body is delimited.
struct Framing {
  enum class Kind : std::uint8_t { none, length, chunked, until_close };
  Kind kind = Kind::none;
  std::uint64_t length = 0;  ///< of Kind::length
};

/// What a head says beyond its message.
struct Http1MessageInfo {
  Framing framing;
  bool keep_alive = false;
  bool expects_continue = false;
};

/// Why a head is not acceptable.
struct HeadError {
  Fault fault;
  const char* detail;
};

/// Moves `head` into `request`; the gate of every check that RFC 9112 and past attacks ask for.
std::optional<HeadError> accept_request(Head& head, Request& request,
                                        Http1MessageInfo& message_info);

/// Moves `head` into `response`. `method` is the request's: it decides about the body.
std::optional<HeadError> accept_response(Head& head, std::string_view method, Response& response,
                                         Http1MessageInfo& message_info);

/// A linear buffer for heads, kept by the thread between messages.
class HeadWriter {
 public:
  /// The thread's writer, emptied. What is written stays until the next call.
  static HeadWriter& scratch();

  HeadWriter& operator<<(std::string_view text) {
    if (static_cast<std::size_t>(end_ - at_) < text.size()) grow(text.size());
    std::memcpy(at_, text.data(), text.size());
    at_ += text.size();
    return *this;
  }
  HeadWriter& operator<<(std::uint64_t number);
  /// `name: value` and the line end.
  void field(std::string_view name, std::string_view value) {
    const std::size_t size = name.size() + value.size() + 4;
    if (static_cast<std::size_t>(end_ - at_) < size) grow(size);
    char* at = at_;
    std::memcpy(at, name.data(), name.size());
    at += name.size();
    *at++ = ':';
    *at++ = ' ';
    if (!value.empty()) std::memcpy(at, value.data(), value.size());
    at += value.size();
    *at++ = '\r';
    *at++ = '\n';
    at_ = at;
  }
  /// The size line of a chunk.
  void chunk_size(std::size_t payload);
  std::string_view written() const {
    return {begin_.get(), static_cast<std::size_t>(at_ - begin_.get())};
  }

 private:
  void grow(std::size_t wanted);

  std::unique_ptr<char[]> begin_;
  char* at_ = nullptr;
  char* end_ = nullptr;
};

void write_request_head(HeadWriter& out, const Request& request, const Framing& framing);
/// `close` says that the connection ends with this response; `minor_version` is the client's.
void write_response_head(HeadWriter& out, const Response& response, const Framing& framing,
                         bool close, int minor_version);
/// Frames a chunk of a body in the chunked coding: its size line goes to `out`; what follows its
/// bytes is returned, and kept in `storage` where it is not a constant.
std::string_view frame_chunk(HeadWriter& out, const Chunk& chunk, std::string& storage);

/// Sends what `out` holds, then `body` and `tail`. A small body is copied behind the head: one
/// plain send costs less than gathering. `body` stays until the task is done.
Task<Result<Done>> write_gathered(Socket& socket, HeadWriter& out, std::string_view body,
                                  std::string_view tail, Duration timeout);

}  // namespace evenkeel
