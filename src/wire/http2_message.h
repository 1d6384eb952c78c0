// Messages as HTTP/2 carries them: header sections to and from nghttp2, and the rules of RFC 9113
// that the library leaves to us.
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

/// A header section to be sent, kept by the thread between messages: views.
class Http2HeaderBlock {
 public:
  /// Whether what the section views stays until its frame is written, or is copied when the library
  /// takes it.
  enum class Values : std::uint8_t { borrowed, copied };
  /// The thread's section, emptied.
  static Http2HeaderBlock& scratch(Values bytes);

  /// `name`: in lower case, of static storage.
  void add(std::string_view name, std::string_view value);
  /// Value and name are copied whatever `Bytes` says.
  void add_status(int status);
  void add_length(std::uint64_t length);
  /// All fields of a message but those that HTTP/2 has no place for. `learn`: the table of HPACK
  /// is to learn the names of fields whose values never come twice.
  void add_all(const Fields& fields, bool refresh_hpack);

  const nghttp2_nv* data() const { return fields_.data(); }
  std::size_t size() const { return fields_.size(); }

 private:
  void push(std::string_view name, std::string_view value, unsigned flags);

  std::vector<nghttp2_nv> fields_;
  unsigned flags_ = 0;  // of a value that is as lasting as `Bytes` says
  char digits_[24];
  std::size_t digits_used_ = 0;
};

/// Gathers the header section of a request; a Request when it is complete.
struct Http2RequestHead {
  std::optional<std::uint64_t> length;  ///< content-length
  bool expects_continue = false;

  void field(Request& request, std::string_view name, std::string_view value);
  /// Checks what the library does not. Null: fine; else what is wrong.
  const char* finish(Request& request);
  Fault fault() const { return fault_; }

 private:
  Fault fault_ = Fault::bad_request;
  std::string_view host_;
  std::string cookies_;  // crumbs, joined as RFC 9113 8.2.3 says
  const char* problem_ = nullptr;
};

}  // namespace evenkeel
