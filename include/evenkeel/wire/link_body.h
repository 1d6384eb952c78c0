// What a backend's response tells of its end.
#pragma once

#include "evenkeel/http/message.h"

namespace evenkeel {

/// The body of a response that a Link has returned.
class LinkBody : public Body {
 public:
  /// True if the last read failed because of the client: the backend broke the response after the
  /// reader had held it up for 100 ms or more, or nothing came while the backend had all of an
  /// upload that had not ended. That says nothing of the backend.
  bool awaited_client() const { return awaited_client_; }
  /// Notes that what was read so far is not the beginning of the response, as of a stream with
  /// comments alone: the timeout for the first byte goes on.
  void await_beginning() { awaits_beginning_ = true; }

 protected:
  void note_awaited_client() { awaited_client_ = true; }

  bool awaits_beginning_ = false;

 private:
  bool awaited_client_ = false;
};

}  // namespace evenkeel
