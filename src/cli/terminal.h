// A terminal that is drawn on: its size, its keys, and the promise to leave it as it was.
#pragma once

#include <termios.h>

#include <cstddef>
#include <optional>
#include <string_view>

#include "evenkeel/base/clock.h"

namespace evenkeel {

/// What ended a wait for the user.
enum class TerminalEvent { nothing, redraw, quit };

/// Where stdout is a terminal and is to be drawn on, draws on its second screen and reads single
/// keys; elsewhere only waits. Signals that end a process, and the one that says that the size has
/// changed, are blocked while this lives, and come out of `wait`.
///
/// Thread: the only one of the process.
class Terminal {
 public:
  explicit Terminal(bool draw_screen);
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;
  ~Terminal();

  bool interactive() const { return interactive_; }

  struct Size {
    std::size_t columns = 80;
    std::size_t rows = 24;
  };
  Size size() const;

  /// Replaces what is seen. REQUIRES: `drawn()`.
  void draw(std::string_view screen) const;

  /// Waits until the user wishes something or the time has passed. Quits also when nobody reads
  /// what is written any more.
  TerminalEvent wait(Duration time);

 private:
  TerminalEvent read_signal() const;
  TerminalEvent read_keys();

  bool interactive_ = false;
  bool reads_keys_ = false;  // stdin is the terminal, too
  int signals_ = -1;
  std::optional<termios> saved_settings_;
};

}  // namespace evenkeel
