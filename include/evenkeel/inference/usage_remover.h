// Removes from a stream of events the usage that evenkeel asked for and the client did not.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace evenkeel {

/// Removes what OpenAI's `stream_options: {"include_usage": true}` adds to server-sent events: the
/// event at the end that has usage and no choices, and the member `"usage":null` of the others.
/// vLLM moves `system_fingerprint` to that event, from the one that says why the choice ended: it
/// is moved back, for a stream of one choice. All other bytes stay as they are.
///
/// Bytes of an event that is not complete are held back until it is, up to `max_event`; of a longer
/// event nothing is removed. An event that ends a choice is held back until the next one, which
/// engines send with it.
class UsageRemover {
 public:
  static constexpr std::size_t max_event = 64 * std::size_t{1024};

  /// `removes_null`: this engine writes `"usage":null` only if it is asked for usage.
  explicit UsageRemover(bool removes_null) : removes_null_(removes_null) {}

  /// What follows for the client after these bytes. `last`: none come after them. Valid as long as
  /// `bytes`, and until the next call.
  std::string_view pass(std::string_view bytes, bool last);

 private:
  void find_line_end(std::string_view bytes);
  void pass_event(std::string_view event);
  void stamp_final(std::string_view fingerprint);
  void pass_final();

  bool removes_null_;
  bool knows_line_end_ = false;
  bool ends_in_cr_ = false;  // the lines of the stream end in CR alone, not in LF
  bool too_long_ = false;    // the current event, whose beginning was passed on
  std::string held_;         // the beginning of the next event
  std::string final_;        // the last event, if it ended a choice
  std::string joined_;       // the same with what completed it
  std::string edited_;
};

}  // namespace evenkeel
