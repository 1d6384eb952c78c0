// A request to the admin listener and the reply to it, without the library that reads and writes
// them.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace evenkeel {

/// A text that several connections may be sending at the same time.
using SharedText = std::shared_ptr<const std::string>;

/// Valid while the connection reads nothing more.
struct AdminRequest {
  std::string_view method;
  std::string_view target;  ///< path and query, begins with '/'
  std::string_view host;    ///< of the Host field; empty: HTTP/1.0 without one
  std::vector<std::pair<std::string_view, std::string_view>> fields;
  std::string_view body;
  std::string client;  ///< address, without port
  /// Whether the client has closed the connection, or its sending side; empty: unknown.
  std::function<bool()> has_left;

  std::string_view path() const { return target.substr(0, target.find('?')); }
  std::string_view query() const {
    const auto question = target.find('?');
    return question == std::string_view::npos ? std::string_view() : target.substr(question + 1);
  }
  /// The value of a parameter of the query, decoded.
  std::optional<std::string> parameter(std::string_view name) const;
  /// The first field of that name (lower case).
  std::optional<std::string_view> field(std::string_view name) const;
};

struct AdminReply {
  int status = 200;
  std::string_view content_type = "application/json";
  std::string_view cache_control = "no-store";
  SharedText body;
  bool gzipped = false;
  bool live = false;  ///< an event stream follows; no body
  std::vector<std::pair<std::string_view, std::string>> fields;
};

AdminReply text_reply(int status, std::string text);
AdminReply json_reply(int status, std::string json);
/// {"error": message}
AdminReply error_reply(int status, std::string_view message);

}  // namespace evenkeel
