// Removes from a stream of events the usage that evenkeel asked for and the client did not.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace evenkeel {

/// What matters here of an event. Places are in bytes from its beginning.
struct EventUsage {
  static constexpr std::size_t nowhere = static_cast<std::size_t>(-1);

  std::size_t key = nowhere;          ///< the key `usage` of the outermost object, with its quotes
  std::size_t fingerprint = nowhere;  ///< the key `system_fingerprint`
  bool is_all = false;                ///< usage is an object, and there are no choices
  bool ends_choice = false;           ///< the event says why a choice ended
};

/// Removes what OpenAI's `stream_options: {"include_usage": true}` adds to server-sent events: the
/// event at the end that has usage and no choices, and the member `"usage":null` of the others.
/// vLLM moves `system_fingerprint` to that event, from the one that says why the choice ended: it
/// is moved back, for a stream of one choice. All other bytes stay as they are.
///
/// Looks at no bytes but those that it changes: the stream's reader says where they are. Bytes of
/// an event that is not complete are held back until it is, up to `max_event`; of a longer event
/// nothing is removed. An event that ends a choice is held back until the next one, which engines
/// send with it.
class UsageRemover {
 public:
  static constexpr std::size_t max_event = 64 * std::size_t{1024};

  /// `removes_null`: this engine writes `"usage":null` only if it is asked for usage.
  explicit UsageRemover(bool removes_null) : removes_null_(removes_null) {}

  /// The next bytes of the stream, which stay valid until `pass`.
  void begin(std::string_view bytes);
  /// An event has ended after so many of these bytes, or with all of them.
  void end_event(std::size_t end, const EventUsage& usage);
  /// The first of these bytes belongs to the event before: the LF of its last line.
  void end_line();
  /// What follows for the client after these bytes. `last`: none come after them. Valid as long as
  /// they are, and until the next call.
  std::string_view pass(bool last);

 private:
  void edit();
  void pass_event(std::string_view event, const EventUsage& usage);
  void stamp_final(std::string_view fingerprint);
  void pass_final();

  bool removes_null_;
  bool too_long_ = false;   // the current event, whose beginning was passed on
  bool dropped_ = false;    // the event before was removed
  bool edits_ = false;      // what follows for the client is in `edited_`
  std::string_view bytes_;  // the current ones
  std::size_t passed_ = 0;  // of them, in events that have ended
  std::string held_;        // the beginning of the current event
  std::string final_;       // the last event, if it ended a choice
  std::string edited_;
};

}  // namespace evenkeel
