// What has happened to backends and the configuration, for the live page.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>

#include "admin/documents.h"
#include "evenkeel/admin/reported_state.h"
#include "evenkeel/json/value.h"

namespace evenkeel {

/// Remembers the last changes of backends' states and the last reloads, as precisely as `update` is
/// called. Thread: the management thread.
class EventHistory {
 public:
  using Time = std::chrono::system_clock::time_point;

  static constexpr std::size_t max_events = 256;

  /// Compares with what the last call has seen.
  void update(const RuntimeView& view, Time time);

  /// Returns since when each backend is in its state.
  const BackendStateHistory& states() const { return states_; }
  /// Returns the last events, the newest first.
  JsonValue::List document() const { return {events_.begin(), events_.end()}; }
  /// Returns how many events there were, with those that are forgotten.
  std::uint64_t total() const { return total_; }

 private:
  void add_reloads(const RuntimeStatus& status, std::int64_t second);
  void add(JsonValue event);

  BackendStateHistory states_;
  std::optional<std::uint64_t> reloads_;  // nothing: there was no update
  std::uint64_t rejected_reloads_ = 0;
  std::deque<JsonValue> events_;
  std::uint64_t total_ = 0;
};

}  // namespace evenkeel
