// Converts header sections between nghttp2 and messages, with the checks of a request's head that
// are stricter than RFC 9113.
#pragma once

#include <nghttp2/nghttp2.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "evenkeel/http/message.h"

namespace evenkeel {

/// A header section to be sent, of views; reused by the thread for each message.
class Http2HeaderBlock {
 public:
  /// Whether the values stay valid until the frame is written, or nghttp2 has to copy them.
  enum class Values : std::uint8_t { borrowed, copied };
  /// The thread's section, emptied.
  static Http2HeaderBlock& scratch(Values values);

  /// `name`: in lower case, with static storage.
  void add(std::string_view name, std::string_view value);
  /// Copied in any case, as is the length.
  void add_status(int status);
  void add_length(std::uint64_t length);
  /// Removes the fields with that name.
  void remove(std::string_view name);
  /// All fields of a message except those that HTTP/2 forbids. `refresh_hpack`: enters the names of
  /// fields with unique values into the HPACK table again, in case it evicted them.
  void add_all(const Fields& fields, bool refresh_hpack);

  const nghttp2_nv* data() const { return fields_.data(); }
  std::size_t size() const { return fields_.size(); }

 private:
  void push(std::string_view name, std::string_view value, unsigned flags);

  std::vector<nghttp2_nv> fields_;
  unsigned flags_ = 0;  // nghttp2's, for the section's `Values`
  char digits_[24];
  std::size_t digits_used_ = 0;
};

/// Collects the header section of a request into a Request. An extended CONNECT (RFC 8441) becomes
/// the upgrade of HTTP/1.1 that it stands for.
struct Http2RequestHead {
  std::optional<std::uint64_t> length;  ///< content-length
  bool expects_continue = false;

  /// A field that Http2MessageCheck has passed. `id`: of the name.
  void field(Request& request, FieldId id, std::string_view name, std::string_view value);
  /// Checks what Http2MessageCheck does not. Returns the problem, or null.
  const char* finish(Request& request);
  Fault fault() const { return fault_; }

 private:
  const char* accept_extended_connect(Request& request);

  Fault fault_ = Fault::bad_request;
  std::string_view host_;
  std::string_view protocol_;  // of an extended CONNECT
  std::string cookies_;        // cookie fields joined (RFC 9113, section 8.2.3)
  const char* problem_ = nullptr;
};

}  // namespace evenkeel
