// The event stream of /api/v1/live, as the client reads it.
#pragma once

#include <cstddef>
#include <deque>
#include <optional>
#include <string_view>
#include <utility>

#include "evenkeel/admin/client.h"
#include "evenkeel/http/sse.h"

namespace evenkeel {

/// Collects the parts of an event stream (text/event-stream) into events.
class EventParser {
 public:
  void feed(std::string_view bytes) {
    for (auto part = splitter_.next(bytes); part != EventSplitter::Part::more;
         part = splitter_.next(bytes)) {
      const std::string_view text = splitter_.text();
      if (part == EventSplitter::Part::data) {
        event_.data += text.substr(event_.data.empty() && text.starts_with(' ') ? 1 : 0);
      } else if (part == EventSplitter::Part::event_end) {
        events_.push_back(std::exchange(event_, {}));
      } else if (const auto id = event_field(text, "id"); !id.empty()) {
        event_.id = id;
      } else if (const auto kind = event_field(text, "event"); !kind.empty()) {
        event_.kind = kind;
      }
    }
  }
  /// Bytes of the event that is not complete.
  std::size_t size() const { return event_.data.size(); }

  /// The next complete event.
  std::optional<AdminEvent> next() {
    if (events_.empty()) return std::nullopt;
    AdminEvent event = std::move(events_.front());
    events_.pop_front();
    return event;
  }

 private:
  EventSplitter splitter_{EventSplitter::Framing::events};
  AdminEvent event_;  // that is not complete
  std::deque<AdminEvent> events_;
};

}  // namespace evenkeel
