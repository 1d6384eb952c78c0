// Server-sent events (HTML, section 9.2), and streams of JSON lines, as they arrive.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace evenkeel {

/// Splits a stream into its events, wherever the pieces are cut in which it arrives. Lines end in
/// LF, in CR LF or in CR alone. Keeps no bytes but the beginning of a line without data.
class EventSplitter {
 public:
  enum class Framing : std::uint8_t {
    events,
    json_lines,  ///< every line is the data of one event
  };
  enum class Part : std::uint8_t {
    more,       ///< the piece is used up
    data,       ///< `text` is what a line of data says, or a part of that
    field,      ///< `text` is the beginning of another line: at most `max_field` bytes
    event_end,  ///< a blank line, or any line of JSON lines, has ended
  };
  static constexpr std::size_t max_field = 64;

  explicit EventSplitter(Framing framing) : framing_(framing) {}

  /// Removes the next part from the front of `piece`.
  Part next(std::string_view& piece);
  /// The text of the last part: of `data`, valid as long as the piece; of `field`, until the next
  /// call.
  std::string_view text() const { return text_; }

  /// Passes over a piece without splitting it; the event that it ends in is not shown.
  void skip(std::string_view piece);
  /// Removes an LF that belongs to the last CR. False: there is none.
  bool take_line_feed(std::string_view& piece);
  /// True if the next byte begins an event.
  bool between_events() const { return between_events_; }

 private:
  enum class Line : std::uint8_t { begin, data, other };

  void begin_line(std::string_view& line);
  void keep(std::string_view part);
  Part end_line(std::string_view& piece);

  Framing framing_;
  Line line_ = Line::begin;  // the current one
  bool after_cr_ = false;    // LF would belong to the end of the last line
  bool between_events_ = true;
  std::uint8_t field_size_ = 0;
  std::string_view text_;
  std::array<char, max_field> field_;  // a line without data, or one that may become one of data
};

/// The value of a field such as "event: error" if it has this name, else nothing.
std::string_view event_field(std::string_view line, std::string_view name);

}  // namespace evenkeel
