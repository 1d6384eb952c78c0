#include "evenkeel/http/sse.h"

#include <algorithm>

namespace evenkeel {
namespace {

constexpr std::string_view data_name = "data:";

}  // namespace

bool EventSplitter::take_line_feed(std::string_view& piece) {
  if (!after_cr_ || piece.empty()) return false;
  after_cr_ = false;
  if (piece.front() != '\n') return false;
  piece.remove_prefix(1);
  return true;
}

EventSplitter::Part EventSplitter::next(std::string_view& piece) {
  take_line_feed(piece);
  while (!piece.empty()) {
    if (piece.front() == '\n' || piece.front() == '\r') {
      const Part ended = end_line(piece);
      if (ended != Part::more) return ended;
      continue;
    }
    const std::string_view line = piece.substr(0, piece.find('\n'));
    std::string_view part = line.substr(0, line.find('\r'));
    piece.remove_prefix(part.size());
    between_events_ = false;
    if (line_ == Line::begin) begin_line(part);
    if (part.empty()) continue;
    if (line_ == Line::data) {
      text_ = part;
      return Part::data;
    }
    keep(part);
  }
  return Part::more;
}

/// Finds out what kind of line it is, and removes the name of data.
void EventSplitter::begin_line(std::string_view& line) {
  if (framing_ == Framing::json_lines) {
    line_ = Line::data;
    return;
  }
  if (field_size_ == 0 && line.starts_with(data_name)) {  // as most lines are
    line_ = Line::data;
    line.remove_prefix(data_name.size());
    return;
  }
  while (field_size_ < data_name.size() && !line.empty() &&
         line.front() == data_name[field_size_]) {
    field_[field_size_++] = line.front();
    line.remove_prefix(1);
  }
  if (field_size_ == data_name.size()) {
    line_ = Line::data;
    field_size_ = 0;
  } else if (!line.empty()) {
    line_ = Line::other;
  }
}

void EventSplitter::keep(std::string_view part) {
  const std::size_t kept = std::min(part.size(), field_.size() - field_size_);
  std::copy_n(part.data(), kept, field_.data() + field_size_);
  field_size_ = static_cast<std::uint8_t>(field_size_ + kept);
}

/// `more`: nothing is to be shown. REQUIRES: the piece begins with the end of a line.
EventSplitter::Part EventSplitter::end_line(std::string_view& piece) {
  const bool blank = line_ == Line::begin && field_size_ == 0;
  const bool is_field = !blank && line_ != Line::data;
  text_ = {field_.data(), field_size_};
  line_ = Line::begin;
  field_size_ = 0;
  after_cr_ = piece.front() == '\r';
  piece.remove_prefix(1);
  take_line_feed(piece);
  if (blank || framing_ == Framing::json_lines) {
    between_events_ = true;
    return Part::event_end;
  }
  return is_field ? Part::field : Part::more;
}

void EventSplitter::skip(std::string_view piece) {
  if (piece.empty()) return;
  const bool ends_line = piece.back() == '\n' || piece.back() == '\r';
  after_cr_ = piece.back() == '\r';
  field_size_ = 0;
  line_ = ends_line ? Line::begin : Line::other;
  between_events_ =
      framing_ == Framing::json_lines
          ? ends_line
          : piece.ends_with("\n\n") || piece.ends_with("\r\n\r\n") || piece.ends_with("\r\r");
}

std::string_view event_field(std::string_view line, std::string_view name) {
  if (!line.starts_with(name) || line.size() == name.size() || line[name.size()] != ':') return {};
  line.remove_prefix(name.size() + 1);
  if (line.starts_with(' ')) line.remove_prefix(1);
  return line;
}

}  // namespace evenkeel
