// The rules of RFC 9113, section 8, for what one stream receives.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "evenkeel/http/fields.h"

namespace evenkeel {

/// True if a name is a literal, compared without a call: pseudo-header fields come with every
/// message.
template <std::size_t N>
bool is_name(std::string_view name, const char (&literal)[N]) {
  return name.size() == N - 1 && std::memcmp(name.data(), literal, N - 1) == 0;
}

/// Checks the header sections of one message and the size of its body, field by field: whatever it
/// calls malformed resets the stream. It stands for nghttp2's own checks (`no_http_messaging`),
/// which look up each name once more; its verdicts are the same as those of nghttp2 1.52.
class Http2MessageCheck {
 public:
  enum class Receives : std::uint8_t { request, response };
  explicit Http2MessageCheck(Receives what) : request_(what == Receives::request) {}

  /// The method of a request, as far as it decides about the body of the response: `answers` tells
  /// the check of a response. Other methods need no call.
  enum class RequestMethod : std::uint8_t { other, head, connect };
  void answers(RequestMethod request) { request_method_ = request; }

  /// `ignored`: a content-length that means nothing, in an answer to CONNECT or with status 204.
  enum class Finding : std::uint8_t { fine, ignored, malformed };
  /// The next field of a header section. `id`: of the name.
  Finding field(std::string_view name, FieldId id, std::string_view value);
  /// Ends a header section, and with it the message if `last`. False: malformed.
  bool end_section(bool last);
  /// Bytes of the body were received. False: malformed.
  bool data(std::size_t size) {
    received_ += static_cast<std::int64_t>(size);
    return head_done_ && (length_ == unknown || received_ <= length_);
  }
  /// Ends the message after a part of its body. False: malformed.
  bool end() const { return head_done_ && (length_ == unknown || received_ == length_); }

 private:
  static constexpr std::int64_t unknown = -1;
  enum Seen : std::uint8_t {
    method = 1,
    scheme = 2,
    path = 4,
    authority = 8,
    protocol = 16,
    host = 32,
    status = 64,
    regular = 128,  // any field without a colon
  };

  bool pseudo_field(std::string_view name, std::string_view value);
  Finding content_length(std::string_view value);
  bool parse_status(std::string_view value);
  bool request_complete() const;
  bool end_response_head();
  /// False if the field was there before.
  bool mark(Seen which) {
    if ((seen_ & which) != 0) return false;
    seen_ = static_cast<std::uint8_t>(seen_ | which);
    return true;
  }
  bool has(unsigned all) const { return (seen_ & all) == all; }

  bool request_;
  bool head_done_ = false;  // of a request or a final response: sections that follow are trailers
  bool http_scheme_ = false;
  bool rooted_path_ = false;
  bool asterisk_path_ = false;
  bool options_ = false;
  RequestMethod request_method_ = RequestMethod::other;  // of a request: `connect` if it is one
  std::uint8_t seen_ = 0;
  std::int16_t status_ = 0;
  std::int64_t length_ = unknown;  // announced
  std::int64_t received_ = 0;
};

}  // namespace evenkeel
