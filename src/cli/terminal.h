// The user's terminal: its size, its keys, and a second screen to draw on.
#pragma once

#include <termios.h>

#include <cstddef>
#include <optional>
#include <string_view>

#include "evenkeel/base/clock.h"

namespace evenkeel {

/// What ended a wait for the user.
enum class TerminalEvent { timeout, redraw, next_order, other_view, quit };

struct TerminalSize {
  std::size_t columns = 80;
  std::size_t rows = 24;
};

/// The size of the terminal at stdout; nothing if stdout is not one.
std::optional<TerminalSize> terminal_size();
std::optional<std::size_t> terminal_width();

/// Draws on the terminal's second screen and reads single keys, if stdout is one and `draw_screen`,
/// and restores both when destroyed; otherwise only waits. While it lives, signals that end a
/// process and SIGWINCH are blocked; `wait` reports them.
///
/// Thread: the only one of the process.
class Terminal {
 public:
  explicit Terminal(bool draw_screen);
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;
  ~Terminal();

  bool interactive() const { return interactive_; }

  /// Replaces what the screen shows. REQUIRES: interactive().
  void draw(std::string_view screen) const;

  /// Waits for a key, a signal or the end of `time`. Also returns `quit` when the reader of stdout
  /// has closed it. Keys: q and Ctrl-C quit, s is `next_order`, r is `other_view`,
  /// any other redraws.
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
