// Converts between HTTP/1 heads and protocol-independent messages: removes and adds framing and
// hop-by-hop fields, without copies.
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

  bool is_empty() const { return kind == Kind::none || (kind == Kind::length && length == 0); }
};

/// The least room in the block of a head to read the body there, too.
inline constexpr std::uint32_t min_body_room = 4 * 1024;

/// What an HTTP/1 head says about its connection and framing.
struct Http1MessageInfo {
  Framing framing;
  bool keep_alive = false;
  bool expects_continue = false;
  bool upgrades = false;  ///< the options of the connection of a response say so
};

/// Why a head is refused.
struct HeadError {
  Fault fault;
  const char* detail;
};

/// Moves `head` into `request` after every check that RFC 9112 and known attacks require.
std::optional<HeadError> accept_request(Head& head, Request& request,
                                        Http1MessageInfo& message_info);

/// Moves `head` into `response`. `method` is the request's, on which the framing depends.
std::optional<HeadError> accept_response(Head& head, std::string_view method, Response& response,
                                         Http1MessageInfo& message_info);

/// Copies as memcpy does, without a call for short text, as most names and values are: two words
/// that may overlap.
inline void copy_text(char* to, const char* from, std::size_t size) {
  const auto copy = [&]<class Word>(Word word) {
    std::memcpy(&word, from, sizeof word);
    Word back;
    std::memcpy(&back, from + size - sizeof back, sizeof back);
    std::memcpy(to, &word, sizeof word);
    std::memcpy(to + size - sizeof back, &back, sizeof back);
  };
  struct Words {
    std::uint64_t words[2];
  };
  if (size > 2 * sizeof(Words)) {
    std::memcpy(to, from, size);
  } else if (size >= sizeof(Words)) {
    copy(Words{});
  } else if (size >= sizeof(std::uint64_t)) {
    copy(std::uint64_t{});
  } else if (size >= sizeof(std::uint32_t)) {
    copy(std::uint32_t{});
  } else {
    for (std::size_t i = 0; i < size; ++i) to[i] = from[i];
  }
}

/// A linear buffer for heads, reused by the thread for each message.
class HeadWriter {
 public:
  /// The thread's writer, emptied. What is written is valid until the next call.
  static HeadWriter& scratch();

  HeadWriter& operator<<(std::string_view text) {
    make_room(text.size());
    copy_text(at_, text.data(), text.size());
    at_ += text.size();
    return *this;
  }
  /// A literal: the size of the copy is known.
  template <std::size_t N>
  HeadWriter& operator<<(const char (&literal)[N]) {
    make_room(N - 1);
    std::memcpy(at_, literal, N - 1);
    at_ += N - 1;
    return *this;
  }
  HeadWriter& operator<<(std::uint64_t number);
  /// Writes `name: value` and the line end.
  void field(std::string_view name, std::string_view value) {
    make_room(name.size() + value.size() + 4);
    char* at = at_;
    copy_text(at, name.data(), name.size());
    at += name.size();
    *at++ = ':';
    *at++ = ' ';
    copy_text(at, value.data(), value.size());
    at += value.size();
    *at++ = '\r';
    *at++ = '\n';
    at_ = at;
  }
  /// Writes the size line of a chunk.
  void chunk_size(std::size_t payload);
  std::string_view written() const {
    return {begin_.get(), static_cast<std::size_t>(at_ - begin_.get())};
  }

 private:
  void make_room(std::size_t wanted) {
    if (static_cast<std::size_t>(end_ - at_) < wanted) [[unlikely]]
      grow(wanted);
  }
  void grow(std::size_t wanted);

  std::unique_ptr<char[]> begin_;
  char* at_ = nullptr;
  char* end_ = nullptr;
};

void write_request_head(HeadWriter& out, const Request& request, const Framing& framing);
/// `close`: the connection ends with this response. `minor_version` is the client's.
void write_response_head(HeadWriter& out, const Response& response, const Framing& framing,
                         bool close, int minor_version);
/// Frames a chunk of a body in the chunked coding: writes its size line to `out` and returns what
/// follows its bytes, which `storage` holds if it is not a constant.
std::string_view frame_chunk(HeadWriter& out, const Chunk& chunk, std::string& storage);

/// Sends `out`, then `body` and `tail`. `body` must stay valid until the task is done.
inline Task<Result<Done>> write_gathered(Socket& socket, HeadWriter& out, std::string_view body,
                                         std::string_view tail, Duration timeout) {
  constexpr std::size_t small = 4096;
  if (body.size() <= small) {        // one plain send costs less than a gathering one
    if (!body.empty()) out << body;  // an empty view may be null, which memcpy does not allow
    if (!tail.empty()) out << tail;
    body = tail = {};
  }
  return socket.write(out.written(), body, tail, timeout);
}

}  // namespace evenkeel
