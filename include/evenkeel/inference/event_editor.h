// Changes in the events of a response what the client did not ask for: the usage that evenkeel
// asked for, and the name that a backend has for the model.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace evenkeel {

/// What matters here of an event. Places are in bytes from its beginning.
struct EventPlaces {
  static constexpr std::size_t nowhere = static_cast<std::size_t>(-1);

  std::size_t usage = nowhere;        ///< the key `usage` of the outermost object, with its quotes
  std::size_t fingerprint = nowhere;  ///< the key `system_fingerprint`
  /// The key `model`, of the outermost object, or of the `response` or `message` in it.
  std::size_t model = nowhere;
  bool is_usage = false;     ///< usage is an object, and there are no choices
  bool ends_choice = false;  ///< the event says why a choice ended
};

/// What is changed in a response.
struct EventEdits {
  bool removes_usage = false;
  /// True if, with `removes_usage`, the engine writes `"usage":null` only if asked for usage.
  bool removes_null = false;
  std::string model = {};  ///< the name that the client gave, as JSON; empty: names stay
};

/// Changes server-sent events, JSON lines, or the only document of a response, as one event.
///
/// Usage: removes what OpenAI's `stream_options: {"include_usage": true}` adds: the event at the
/// end that has usage and no choices, and the member `"usage":null` of the others. vLLM moves
/// `system_fingerprint` to that event, from the one that says why the choice ended: it is moved
/// back, for a stream of one choice. All other bytes stay as they are.
///
/// Looks at no bytes but those that it changes: the reader of the response says where they are.
/// Bytes of an event that is not complete are held back until it is, up to `max_event`; in a longer
/// event nothing is changed. With `removes_usage`, an event that ends a choice is held back until
/// the next one, which engines send with it.
class EventEditor {
 public:
  static constexpr std::size_t max_event = 64 * std::size_t{1024};
  static constexpr std::size_t max_document = 1024 * std::size_t{1024};

  /// `max_held`: the longest event that is changed, in bytes.
  explicit EventEditor(EventEdits edits, std::size_t max_held = max_event)
      : edits_(std::move(edits)), max_held_(max_held) {}

  /// True if names of models are replaced.
  bool renames() const { return !edits_.model.empty(); }

  /// The next bytes of the response, which stay valid until `pass`.
  void begin(std::string_view bytes);
  /// An event has ended after so many of these bytes, or with all of them.
  void end_event(std::size_t end, const EventPlaces& places);
  /// The first of these bytes belongs to the event before: the LF of its last line.
  void end_line();
  /// What follows for the client after these bytes. `last`: none come after them. Valid as long as
  /// they are, and until the next call.
  std::string_view pass(bool last);

 private:
  bool changes(const EventPlaces& places) const;
  void edit();
  void pass_event(std::string_view event, const EventPlaces& places);
  void append_edited(std::string_view event, const EventPlaces& places, std::string& to) const;
  void stamp_final(std::string_view fingerprint);
  void pass_final();

  const EventEdits edits_;
  const std::size_t max_held_;
  bool too_long_ = false;    // the current event, whose beginning was passed on
  bool dropped_ = false;     // the event before was removed
  bool has_edited_ = false;  // what follows for the client is in `edited_`
  std::string_view bytes_;   // the current ones
  std::size_t passed_ = 0;   // of them, in events that have ended
  std::string held_;         // the beginning of the current event
  std::string final_;        // the last event, if it ended a choice
  std::string edited_;
};

}  // namespace evenkeel
