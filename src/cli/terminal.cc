#include "cli/terminal.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <string>

#include "evenkeel/base/file.h"

namespace evenkeel {
namespace {

constexpr std::string_view enter_alternate_screen = "\x1b[?1049h\x1b[?25l";
constexpr std::string_view leave_alternate_screen = "\x1b[?25h\x1b[?1049l";

sigset_t own_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int number : {SIGINT, SIGTERM, SIGQUIT, SIGHUP, SIGWINCH}) sigaddset(&set, number);
  return set;
}

}  // namespace

std::optional<TerminalSize> terminal_size() {
  if (isatty(STDOUT_FILENO) != 1) return std::nullopt;
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0 || size.ws_row == 0) {
    return TerminalSize{};
  }
  return TerminalSize{.columns = size.ws_col, .rows = size.ws_row};
}

std::optional<std::size_t> terminal_width() {
  const auto size = terminal_size();
  return size ? std::optional(size->columns) : std::nullopt;
}

Terminal::Terminal(bool draw_screen) {
  const sigset_t set = own_signals();
  sigprocmask(SIG_BLOCK, &set, nullptr);
  signals_ = signalfd(-1, &set, SFD_CLOEXEC);
  interactive_ = draw_screen && isatty(STDOUT_FILENO) == 1;
  if (!interactive_) return;
  termios settings{};
  reads_keys_ = isatty(STDIN_FILENO) == 1 && tcgetattr(STDIN_FILENO, &settings) == 0;
  if (reads_keys_) {
    saved_settings_ = settings;
    settings.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
    tcsetattr(STDIN_FILENO, TCSANOW, &settings);
  }
  write_all(STDOUT_FILENO, enter_alternate_screen);
}

Terminal::~Terminal() {
  if (interactive_) write_all(STDOUT_FILENO, leave_alternate_screen);
  if (saved_settings_) tcsetattr(STDIN_FILENO, TCSANOW, &*saved_settings_);
  close(signals_);
  const sigset_t set = own_signals();
  sigprocmask(SIG_UNBLOCK, &set, nullptr);
}

void Terminal::draw(std::string_view screen) const {
  std::string bytes = "\x1b[H";
  while (!screen.empty()) {
    const auto end = screen.find('\n');
    bytes.append(screen.substr(0, end)).append("\x1b[K");
    if (end == std::string_view::npos) break;
    bytes += "\r\n";
    screen.remove_prefix(end + 1);
  }
  bytes += "\x1b[J";
  write_all(STDOUT_FILENO, bytes);
}

TerminalEvent Terminal::wait(Duration time) {
  const Instant until = Clock::now() + time;
  while (true) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now()).count();
    if (left <= 0) return TerminalEvent::timeout;
    // poll always reports errors, such as that the reader of stdout has closed it.
    std::array<pollfd, 3> watched = {{{signals_, POLLIN, 0},
                                      {STDOUT_FILENO, 0, 0},
                                      {reads_keys_ ? STDIN_FILENO : -1, POLLIN, 0}}};
    if (poll(watched.data(), watched.size(), static_cast<int>(std::min<long>(left, 60'000))) < 0) {
      continue;
    }
    if ((watched[1].revents & (POLLERR | POLLHUP)) != 0) return TerminalEvent::quit;
    if (watched[0].revents != 0) return read_signal();
    if (watched[2].revents != 0) return read_keys();
  }
}

TerminalEvent Terminal::read_signal() const {
  signalfd_siginfo info;
  if (read(signals_, &info, sizeof info) != sizeof info) return TerminalEvent::redraw;
  return info.ssi_signo == SIGWINCH ? TerminalEvent::redraw : TerminalEvent::quit;
}

TerminalEvent Terminal::read_keys() {
  constexpr char end_of_text = 3;  // Ctrl-C, where the terminal does not make a signal of it
  std::array<char, 64> keys;
  const ssize_t count = read(STDIN_FILENO, keys.data(), keys.size());
  if (count <= 0) reads_keys_ = false;
  const std::string_view typed(keys.data(), static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
  const bool quits =
      typed.find_first_of("qQ") != typed.npos || typed.find(end_of_text) != typed.npos;
  if (quits) return TerminalEvent::quit;
  if (typed.find_first_of("rR") != typed.npos) return TerminalEvent::other_view;
  return typed.find_first_of("sS") != typed.npos ? TerminalEvent::next_order
                                                 : TerminalEvent::redraw;
}

}  // namespace evenkeel
