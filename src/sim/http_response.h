// Small responses, and the request bodies they answer.
#pragma once

#include <string>
#include <string_view>

#include "evenkeel/http/message.h"

namespace evenkeel {

/// A target without its query.
inline std::string_view path_of(std::string_view target) {
  return target.substr(0, target.find('?'));
}

/// A response with a body; no content-type where the body is empty.
Response respond(int status, std::string_view content_type, std::string body);
Response respond_json(int status, std::string body);
/// {"error": MESSAGE}
std::string error_object(std::string_view message);
/// The head of a stream of server-sent events.
Response respond_event_stream(BodyPtr body);

/// Reads the whole request body. An error: the client left before its end.
Task<Result<std::string>> read_all(Request& request);

std::string base64(std::string_view bytes);

}  // namespace evenkeel
