// Server-sent events of GET /api/v1/live: a snapshot of the daemon, then what changed, once a
// second.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "admin/asio.h"
#include "admin/message.h"
#include "evenkeel/json/value.h"

namespace evenkeel {

/// What changed between two states: `status` and `overview` with the fields that differ; `pools`
/// and `backends` with their names (`name`; `pool` and `id`) and the fields that differ; `removed`
/// where there is any. What is absent is unchanged.
JsonValue live_diff(const JsonValue& before, const JsonValue& after);

/// Makes the events that all subscribers share. The state of a second is rendered once, however
/// many subscribers there are, and not at all while there is none; events are kept for `history`
/// seconds, so that a subscriber which comes back gets those that it has missed.
///
/// Thread: the management thread.
class LiveFeed {
 public:
  /// {"status": {...}, "pools": [...], "backends": [...], "overview": {...}}
  using ReadState = std::function<JsonValue()>;

  static constexpr Duration interval = std::chrono::seconds(1);
  static constexpr std::size_t history = 30;
  static constexpr std::size_t max_history_bytes = 16 * 1024 * 1024;
  /// A subscriber that is further behind gets a snapshot.
  static constexpr std::uint64_t max_backlog = 10;

  LiveFeed(IoContextPtr io, ReadState read_state);

  /// One subscriber's position.
  class Subscription {
   public:
    /// `last_event_id`: of the Last-Event-ID field; empty: none.
    Subscription(LiveFeed& feed, std::string_view last_event_id);
    Subscription(const Subscription&) = delete;
    ~Subscription();

    /// The next event; waits until there is one. Null: the feed has been stopped.
    Awaitable<SharedText> next();

   private:
    LiveFeed& feed_;
    std::optional<std::uint64_t> last_;  // the number of the event sent last
  };

  /// Ends all waits. Thread: the management thread.
  void stop();

 private:
  struct Event {
    std::uint64_t number;
    SharedText text;
  };

  void subscribe();
  void advance();
  void forget();
  Awaitable<void> run();
  SharedText snapshot();
  std::optional<std::uint64_t> number_of(std::string_view event_id) const;
  std::string event(std::uint64_t number, std::string_view kind, const JsonValue& data) const;

  IoContextPtr io_;
  ReadState read_state_;
  std::string epoch_;  // of this process: numbers of another one mean nothing here
  JsonValue state_;
  std::uint64_t number_ = 0;  // of `state_`; 0: there is none
  SharedText snapshot_;       // of `state_`; null until it is needed
  std::deque<Event> diffs_;   // the last one leads to `state_`
  std::size_t diff_bytes_ = 0;
  IoTimer advanced_;  // cancelled to wake all subscribers
  IoTimer tick_;
  std::size_t subscribers_ = 0;
  Instant last_subscriber_left_{};
  bool running_ = false;
  bool stopped_ = false;
};

}  // namespace evenkeel
