// Converts header sections from and to messages, with the checks of a request's head that
// are stricter than RFC 9113.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "evenkeel/base/loop.h"
#include "evenkeel/base/pool_allocator.h"
#include "evenkeel/http/message.h"

namespace evenkeel {

/// A header section that is to be sent, in its session's list.
class Http2Section final : public Node, public Pooled {
 public:
  /// Whether names and values stay valid until the frame is written, or have to be copied.
  enum class Values : std::uint8_t { borrowed, copied };
  explicit Http2Section(Values values) : values_(values) {}

  /// `name`: in lower case, with static storage. `id`: of a pseudo-field `other`.
  void add(std::string_view name, std::string_view value, FieldId id = FieldId::other,
           bool never_indexed = false) {
    fields_.add(name, kept(value), id, never_indexed);
  }
  /// Adds the status, which is copied in any case, as is the length.
  void add_status(int status);
  void add_length(std::uint64_t length);
  /// Removes the fields with that name.
  void remove(std::string_view name) { fields_.remove(name); }
  /// Adds all fields of a message except those that HTTP/2 forbids.
  void add_all(const Fields& fields);

  const Fields& fields() const { return fields_; }

  std::int32_t stream = 0;

 private:
  std::string_view kept(std::string_view text) {
    return values_ == Values::copied ? fields_.keep(text) : text;
  }

  Fields fields_;
  Values values_;
};

/// Adds a copy of a field that came over HTTP/2: its name is in lower case.
void add_received(Fields& fields, const Field& field);

/// Collects the header section of a request into a Request. An extended CONNECT (RFC 8441) becomes
/// the upgrade of HTTP/1.1 that it stands for.
struct Http2RequestHead {
  std::optional<std::uint64_t> length;  ///< content-length
  bool expects_continue = false;

  /// A field that Http2MessageCheck has passed.
  void field(Request& request, const Field& field);
  /// Checks what Http2MessageCheck does not. Returns the problem, or null.
  const char* finish(Request& request);
  Fault fault() const { return fault_; }

 private:
  const char* accept_extended_connect(Request& request);

  Fault fault_ = Fault::bad_request;
  std::string_view host_;
  std::string_view protocol_;  // of an extended CONNECT
  std::string cookies_;        // cookie fields joined (RFC 9113, section 8.2.3)
  bool secret_cookies_ = false;
  const char* problem_ = nullptr;
};

}  // namespace evenkeel
