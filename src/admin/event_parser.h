// The event stream of /api/v1/live, as the client reads it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "evenkeel/admin/client.h"

namespace evenkeel {

/// Cuts the lines of an event stream (text/event-stream) into events.
class EventParser {
 public:
  void feed(std::string_view bytes) { pending_ += bytes; }
  /// Bytes that belong to no returned event yet.
  std::size_t size() const { return pending_.size(); }

  /// The next complete event.
  std::optional<AdminEvent> next() {
    const auto end = pending_.find("\n\n", scanned_ == 0 ? 0 : scanned_ - 1);
    if (end == std::string::npos) {
      scanned_ = pending_.size();
      return std::nullopt;
    }
    scanned_ = 0;
    AdminEvent event;
    std::string_view lines(pending_.data(), end);
    while (!lines.empty()) {
      const std::string_view line = lines.substr(0, lines.find('\n'));
      lines.remove_prefix(std::min(lines.size(), line.size() + 1));
      take(line, "id: ", event.id);
      take(line, "event: ", event.kind);
      take(line, "data: ", event.data);
    }
    pending_.erase(0, end + 2);
    return event;
  }

 private:
  static void take(std::string_view line, std::string_view name, std::string& value) {
    if (line.starts_with(name)) value = line.substr(name.size());
  }
  std::string pending_;
  std::size_t scanned_ = 0;  // bytes at its begin that hold no end of an event
};

}  // namespace evenkeel
