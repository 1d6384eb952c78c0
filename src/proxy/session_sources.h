// What names the session of a request, for pools that pin sessions to backends.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "evenkeel/balance/hint.h"
#include "evenkeel/http/message.h"

namespace evenkeel {

/// Where a pool looks for the name of a session: the first source that a request has counts.
class SessionSources {
 public:
  /// The cookie that evenkeel sets itself.
  static constexpr std::string_view own_cookie = "evenkeel-session";

  /// As in the file: `header:NAME`, `cookie:NAME`, `cookie`, `session_id`, `sequence_id`.
  explicit SessionSources(const std::vector<std::string>& by);

  /// Nothing if the request has none of the sources. Those of its body count only if that was
  /// inspected.
  std::optional<SessionHint> find(const Request& request) const;
  /// A request without a session gets one, with a cookie that names it.
  bool sets_cookie() const { return sets_cookie_; }

 private:
  enum class Kind : std::uint8_t { header, cookie, session_id, sequence_id };
  struct Source {
    Kind kind;
    std::string name;
  };

  std::vector<Source> sources_;
  bool sets_cookie_ = false;
};

/// The value of a cookie; empty: there is none.
std::string_view cookie_value(const Fields& fields, std::string_view name);

/// The `set-cookie` that names a session. `secure`: the client uses TLS.
std::string session_cookie(std::string_view session, bool secure);

}  // namespace evenkeel
