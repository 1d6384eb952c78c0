// Lines of a stream of events.
#pragma once

#include <cstddef>
#include <string_view>

namespace evenkeel {

/// Cuts a stream into its lines, which end in LF, in CR LF or in CR alone, as those of server-sent
/// events may (HTML, section 9.2.6), wherever the pieces are cut in which it arrives.
class LineCutter {
 public:
  struct Part {
    std::string_view text;  ///< without the end of the line
    bool whole = false;     ///< the line ends here; otherwise nothing is left of the piece
  };

  /// Removes from a piece the rest of the current line, or as much as there is of it.
  /// REQUIRES: `piece` is not empty.
  Part cut(std::string_view& piece) {
    if (after_cr_) {
      after_cr_ = false;
      if (piece.front() == '\n') piece.remove_prefix(1);  // of the line that has ended
    }
    const std::string_view text = piece.substr(0, piece.find('\n'));
    const std::size_t end = text.find('\r');
    const Part part{.text = text.substr(0, end),
                    .whole = end != std::string_view::npos || text.size() < piece.size()};
    piece.remove_prefix(part.text.size());
    if (!part.whole) return part;
    const bool is_cr = piece.front() == '\r';
    piece.remove_prefix(1);
    if (is_cr && !piece.empty() && piece.front() == '\n') {
      piece.remove_prefix(1);
    } else {
      after_cr_ = is_cr;
    }
    return part;
  }

 private:
  bool after_cr_ = false;  // LF would belong to the end of the last line
};

}  // namespace evenkeel
