// Reads a stream of server-sent events, or of JSON lines.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "evenkeel/http/sse.h"
#include "evenkeel/inference/response_reader.h"
#include "inference/response_document.h"

namespace evenkeel {

/// Records output that arrived at `now`.
void add_output(InferenceResponse& into, std::uint32_t events, Instant now);

/// Finds events in which a server reports an error: `{"error": ...` or `{"object": "error"`, or of
/// the name "error". One that blames the request is none.
class EventErrors {
 public:
  void read_data(std::string_view part);
  void read_field(std::string_view line);
  void end_event();
  bool found() const { return found_; }

 private:
  bool names_error_ = false;  // the current event is called "error"
  bool skips_ = false;        // it is no error
  bool found_ = false;
  std::string data_;  // of the current event, as long as it may be an error
};

class EventReader final : public ResponseReader {
 public:
  EventReader(EventSplitter::Framing framing, InferenceResponse& into,
              const ResponseInterests& interests);

  void read(std::string_view bytes, Instant now) override;
  void finish(Instant now) override;
  void wants_output(bool wants) override;
  bool found_error() const override { return errors_.found(); }
  bool between_events() const override { return splitter_.between_events(); }

 private:
  void read_data(std::string_view part, std::size_t offset);
  void read_field(std::string_view line);
  bool end_event();

  InferenceResponse& into_;
  const bool finds_errors_;
  EventEditor* const editor_;
  EventSplitter splitter_;
  ResponseDocument document_;
  EventErrors errors_;
  std::size_t event_bytes_ = 0;  // of the current event, in earlier pieces
  bool wants_output_ = true;
  bool reads_output_ = true;  // of the current event
};

}  // namespace evenkeel
