// Streams of events: how they break, and errors within them.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "evenkeel/base/line_cutter.h"
#include "evenkeel/http/message.h"
#include "evenkeel/http/status.h"

namespace evenkeel {

/// A stream of server-sent events, or of JSON lines. If the backend breaks it, the client gets an
/// error event in the shape that its library parses, and then a connection or stream that ends
/// without the end of the message. An event in which the backend itself reports an error makes the
/// request a failed one (`stream_error`).
///
/// REQUIRES: `info` outlives it.
class EventStreamBody final : public Body {
 public:
  /// Whether a response is such a stream, to which an event can be added.
  static bool applies_to(const Response& response);

  /// `finds_errors`: events of the server's engine are known, so that errors in them count.
  EventStreamBody(const Request& request, const Response& response, BodyPtr body, RequestInfo& info,
                  bool finds_errors);

  Task<Result<Chunk>> read() override;

 private:
  Task<Result<Chunk>> wait(Task<Result<Chunk>> next);
  Result<Chunk> check(Result<Chunk> chunk);
  void find_error(std::string_view bytes, bool last);
  void keep_line(std::string_view part);
  void inspect_line(std::string_view line);
  void end_event();
  void report_error();
  void remember_end(std::string_view bytes);

  BodyPtr body_;
  RequestInfo& info_;
  ErrorFormat format_;
  bool lines_;  // JSON lines
  bool finds_errors_;
  bool begun_ = false;
  bool between_events_ = true;  // the next byte begins an event
  bool skips_line_ = false;     // the current line is no error's
  bool names_error_ = false;    // the current event has a line `event: error`
  LineCutter cutter_;
  std::string line_;  // the current line, if it began in an earlier chunk
  std::optional<Error> broken_;
  std::string event_;
};

}  // namespace evenkeel
