#include "evenkeel/upgrade/successor.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string_view>
#include <utility>

#include "evenkeel/base/exit_codes.h"
#include "evenkeel/base/owned_fd.h"
#include "evenkeel/base/refusal_text.h"

namespace evenkeel {
namespace {

constexpr int channel_fd = 3;  // of the new process
/// How long a process that has closed its channel or was killed may take to end.
constexpr Duration max_exit_time = std::chrono::seconds(5);
/// How often it is checked whether the new process still runs.
constexpr Duration end_poll_interval = std::chrono::milliseconds(100);
/// How often it is looked whether it is ready. Not a watch, which the kernel may refuse.
constexpr Duration start_poll_interval = std::chrono::milliseconds(10);
/// Exit codes of a daemon that was stopped or replaced: 0, or 3 with requests in flight.
constexpr std::array<int, 2> normal_exit_codes{exit_done, exit_timeout};

Error failure(std::string detail) {
  return Error{.fault = Fault::internal, .detail = std::move(detail)};
}

/// Reads errno.
Error no_channel() { return failure("no channel to a new process: " + refusal_text("", errno)); }

/// Where the shell found a command without a slash.
std::string find_in_path(const std::string& name) {
  const char* const path = std::getenv("PATH");
  std::string_view left = path == nullptr ? "" : path;
  while (!left.empty()) {
    const std::size_t colon = left.find(':');
    std::string candidate = std::string(left.substr(0, colon)) + "/" + name;
    if (access(candidate.c_str(), X_OK) == 0) return candidate;
    left = colon == std::string_view::npos ? "" : left.substr(colon + 1);
  }
  return "";
}

/// The environment without what describes this process only: the sockets and the watchdog that it
/// was given.
std::vector<std::string> environment_of_successor() {
  constexpr std::array<std::string_view, 5> dropped{
      "LISTEN_PID=", "LISTEN_FDS=", "LISTEN_FDNAMES=", "WATCHDOG_PID=", "EVENKEEL_HANDOVER_FD="};
  std::vector<std::string> kept;
  for (char** each = environ; *each != nullptr; ++each) {
    const std::string_view entry = *each;
    bool keep = true;
    for (const std::string_view prefix : dropped) keep = keep && !entry.starts_with(prefix);
    if (keep) kept.emplace_back(entry);
  }
  kept.push_back(fmt::format("{}={}", handover_variable, channel_fd));
  return kept;
}

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  pointers.reserve(texts.size() + 1);
  for (std::string& each : texts) pointers.push_back(each.data());
  pointers.push_back(nullptr);
  return pointers;
}

/// Leaves its exit status where it is.
bool has_ended(pid_t child) {
  siginfo_t info{};
  return waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
         info.si_pid != 0;
}

}  // namespace

Program Program::of_this_process() {
  Program program;
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  for (std::string argument; std::getline(file, argument, '\0');)
    program.arguments.push_back(std::move(argument));
  if (program.arguments.empty()) return program;
  const std::string& name = program.arguments.front();
  std::error_code error;
  std::filesystem::path path = name.find('/') == std::string::npos ? find_in_path(name) : name;
  // Started under another name (exec -a), or replaced since: the file that runs, or ran.
  if (!std::filesystem::equivalent(path, "/proc/self/exe", error) || error) {
    constexpr std::string_view replaced = " (deleted)";
    std::string running = std::filesystem::read_symlink("/proc/self/exe", error).string();
    if (running.ends_with(replaced)) running.resize(running.size() - replaced.size());
    path = running;
  }
  program.path = std::filesystem::absolute(path, error).string();
  return program;
}

Successor::~Successor() {
  if (!starting_) return;
  kill(pid_, SIGKILL);
  take_back();
}

/// Closes the sockets that the new process has not read. Otherwise they would listen for as long as
/// any process that it has left behind holds its end of the channel.
void Successor::take_back() const {
  const auto unread = receive_listeners(theirs_.get());
  if (!unread) return;
  for (const HandedOverListener& listener : *unread) {
    for (const int fd : listener.fds) close(fd);
  }
}

void Successor::cancel() {
  if (starting_) kill(pid_, SIGTERM);
}

Task<Result<Done>> Successor::start(const Program& program, const Handover& handover,
                                    Instant deadline) {
  auto spawned = spawn(program, handover);
  if (!spawned) co_return std::move(spawned.error());
  starting_ = true;
  const std::string problem = co_await wait_ready(deadline);
  if (problem.empty()) {
    starting_ = false;
    ready_ = true;
    theirs_ = OwnedFd();
    co_return Done{};
  }
  const std::string end = co_await reap();
  starting_ = false;
  take_back();
  own_ = OwnedFd();
  co_return failure(problem + end);
}

Result<Done> Successor::spawn(const Program& program, const Handover& handover) {
  std::array<int, 2> ends{-1, -1};
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends.data()) != 0) {
    return no_channel();
  }
  own_ = OwnedFd(ends[0]);
  theirs_ = OwnedFd(ends[1]);
  auto sent = send_listeners(own_.get(), handover.listeners);
  if (sent) sent = send_state(own_.get(), handover.state);
  if (!sent) return std::move(sent.error());

  // Above the numbers that the new process uses: dup2 to the same number would not clear CLOEXEC.
  const OwnedFd source(fcntl(theirs_.get(), F_DUPFD_CLOEXEC, channel_fd + 1));
  if (source.get() < 0) return no_channel();
  std::vector<std::string> arguments = program.arguments;
  std::vector<std::string> environment = environment_of_successor();
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, source.get(), channel_fd);
  posix_spawn_file_actions_addclosefrom_np(&actions, channel_fd + 1);
  // Signals stay blocked: those that arrive during the start are handled after it.
  const int error = posix_spawn(&pid_, program.path.c_str(), &actions, nullptr,
                                pointers_to(arguments).data(), pointers_to(environment).data());
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) {
    return failure(fmt::format("cannot run {}: {}", program.path, refusal_text("", error)));
  }
  return Done{};
}

/// Returns the problem; empty: it is ready.
Task<std::string> Successor::wait_ready(Instant deadline) {
  while (true) {
    std::array<char, 64> buffer{};
    const ssize_t got = recv(own_.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (got > 0) {
      const std::string_view text(buffer.data(), static_cast<std::size_t>(got));
      if (text == handover_ready) co_return "";
      kill(pid_, SIGKILL);
      co_return "the new process does not speak this version's protocol";
    }
    if (got == 0 || errno != EAGAIN) co_return "the new process did not start";
    co_await loop_.sleep_for(start_poll_interval);
    // Its end of the channel says nothing: a process that it has left behind may hold it.
    if (has_ended(pid_)) co_return "the new process did not start";
    if (loop_.now() >= deadline) {
      kill(pid_, SIGKILL);
      co_return "the new process was not ready in time";
    }
  }
}

/// Returns how it ended, to append to a sentence.
Task<std::string> Successor::reap() {
  const Instant deadline = loop_.now() + max_exit_time;
  int status = 0;
  while (waitpid(pid_, &status, WNOHANG) == 0) {
    if (loop_.now() >= deadline) kill(pid_, SIGKILL);
    co_await loop_.sleep_for(std::chrono::milliseconds(10));
  }
  if (WIFSIGNALED(status)) co_return fmt::format(": it was ended by signal {}", WTERMSIG(status));
  co_return fmt::format(": it exited with code {}", WEXITSTATUS(status));
}

Task<std::string> Successor::wait_end() {
  siginfo_t info{};
  while (waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
         info.si_pid == 0) {
    co_await loop_.sleep_for(end_poll_interval);
  }
  ready_ = false;
  if (info.si_pid == 0) co_return "";  // not a child: nothing is known
  if (info.si_code != CLD_EXITED) {
    co_return fmt::format("it was ended by signal {}", info.si_status);
  }
  const auto* const normal =
      std::find(normal_exit_codes.begin(), normal_exit_codes.end(), info.si_status);
  if (normal != normal_exit_codes.end()) co_return "";
  co_return fmt::format("it exited with code {}", info.si_status);
}

void Successor::forget() { waitpid(pid_, nullptr, WNOHANG); }

bool Successor::send(int signal) const { return ready_ && kill(pid_, signal) == 0; }

}  // namespace evenkeel
