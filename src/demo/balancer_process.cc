#include "demo/balancer_process.h"

#include <fcntl.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

#include "evenkeel/base/file.h"
#include "evenkeel/base/owned_fd.h"
#include "evenkeel/config/load.h"

namespace evenkeel {
namespace {

constexpr std::size_t lines_kept = 20;
constexpr std::size_t max_line_bytes = 4096;

Error failed(std::string what) {
  return Error{.fault = Fault::internal, .side = Side::proxy, .detail = std::move(what)};
}

Error failed_call(const char* call) {
  return failed(std::string(call) + ": " + std::strerror(errno));
}

/// Turns the child into `binary`. Only calls that are safe after a fork in a threaded process.
[[noreturn]] void become(const char* binary, char* const* arguments, pid_t parent, int in, int out,
                         int err, const TerminationSignals& interrupts) {
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != parent) _exit(127);  // the parent ended before the line above
  setpgid(0, 0);                        // the terminal's Ctrl-C is for the parent alone
  dup2(in, STDIN_FILENO);
  dup2(out, STDOUT_FILENO);
  dup2(err, STDERR_FILENO);
  interrupts.unblock_in_child();
  execv(binary, arguments);
  constexpr std::string_view message = "cannot be executed\n";
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, message.data(), message.size());
  _exit(127);
}

/// The value of ` key=value` in a line.
std::string value_in(std::string_view line, std::string_view key) {
  const std::size_t found = line.find(key);
  if (found == std::string_view::npos) return {};
  const std::string_view value = line.substr(found + key.size());
  return std::string(value.substr(0, value.find(' ')));
}

}  // namespace

Result<std::unique_ptr<BalancerProcess>> BalancerProcess::start(
    const std::string& binary, const std::string& config, const TerminationSignals& interrupts,
    Duration timeout) {
  const OwnedFd file(memfd_create("evenkeel.yaml", MFD_CLOEXEC));
  if (file.get() < 0 || write_all(file.get(), config) != 0 || lseek(file.get(), 0, SEEK_SET) != 0)
    return failed_call("memfd_create");
  const OwnedFd null_device(open("/dev/null", O_WRONLY | O_CLOEXEC));
  if (null_device.get() < 0) return failed_call("/dev/null");
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return failed_call("pipe");
  OwnedFd output(ends[0]);
  OwnedFd child_output(ends[1]);
  fcntl(output.get(), F_SETFL, O_NONBLOCK);

  std::string argv[] = {"evenkeel", "run", "-c", "-"};
  char* arguments[] = {argv[0].data(), argv[1].data(), argv[2].data(), argv[3].data(), nullptr};
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid < 0) return failed_call("fork");
  if (pid == 0) {
    become(binary.c_str(), arguments, parent, file.get(), null_device.get(), child_output.get(),
           interrupts);
  }
  std::unique_ptr<BalancerProcess> balancer(new BalancerProcess(pid, output.take()));
  child_output = OwnedFd();

  const Instant deadline = Clock::now() + timeout;
  while (!balancer->ready_) {
    const int fds[] = {interrupts.fd(), balancer->output_fd()};
    const int woken = wait_any_readable(fds, deadline);
    if (woken == 0) return failed("interrupted");
    if (woken < 0)
      return failed("the balancer did not get ready in time:\n" + balancer->last_output());
    if (!balancer->take_output()) {
      return failed("the balancer did not start:\n" + balancer->last_output());
    }
  }
  return balancer;
}

BalancerProcess::~BalancerProcess() {
  stop(Duration::zero());
  close(output_fd_);
}

bool BalancerProcess::take_output() {
  char buffer[4096];
  for (;;) {
    const ssize_t size = read(output_fd_, buffer, sizeof buffer);
    if (size == 0) return false;
    if (size < 0) return errno == EAGAIN || errno == EINTR;
    for (const char c : std::string_view(buffer, static_cast<std::size_t>(size))) {
      if (c == '\n') {
        take_line(std::exchange(partial_, {}));
      } else if (partial_.size() < max_line_bytes) {
        partial_ += c;
      }
    }
  }
}

void BalancerProcess::take_line(std::string_view line) {
  if (line == "ready") ready_ = true;
  if (line.starts_with("listening ")) {
    const std::string name = value_in(line, " name=");
    (name == "admin" ? admin_address_ : public_address_) = value_in(line, " address=");
  }
  lines_.emplace_back(line);
  if (lines_.size() > lines_kept) lines_.pop_front();
}

std::string BalancerProcess::last_output() const {
  std::string text;
  for (const std::string& line : lines_) text += line + "\n";
  return text;
}

int BalancerProcess::stop(Duration timeout) {
  if (pid_ == 0) return exit_code_;
  kill(pid_, SIGTERM);
  // The output ends with the process, and unlike the process it can be waited for with a deadline.
  const Instant deadline = Clock::now() + timeout;
  while (take_output()) {
    if (Clock::now() >= deadline || wait_any_readable({&output_fd_, 1}, deadline) < 0) {
      kill(pid_, SIGKILL);
      break;
    }
  }
  int status = 0;
  while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  pid_ = 0;
  exit_code_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return exit_code_;
}

// The path of this program; without /proc (a bare chroot), as it was started with.
std::string executable_path() {
  constexpr const char* itself = "/proc/self/exe";
  // NOLINTNEXTLINE(performance-no-int-to-ptr): that is how the kernel hands it over
  return access(itself, X_OK) == 0 ? itself : reinterpret_cast<const char*>(getauxval(AT_EXECFN));
}

std::string config_of(PoolConfig pool) {
  pool.engine = "vllm";
  pool.debug_headers = true;
  Config config;
  config.listeners.front().address = {"127.0.0.1", 0};
  config.admin.address = {"127.0.0.1", 0};
  config.routes.push_back({.name = "all", .targets = {{.pool = pool.name}}});
  config.pools.push_back(std::move(pool));
  config.access_log.path = "off";
  config.shutdown.drain = std::chrono::seconds(5);
  return print_config(config, false);
}

LoadOptions streams_to(const BalancerProcess& balancer, const std::string& model) {
  return {.url = "http://" + balancer.public_address(),
          .poisson = true,
          .prompt_tokens = {64, 1024},
          .output_tokens = {16, 96},
          .stream = true,
          .model = model,
          .timeout = std::chrono::seconds(30),
          .drain = BalancerProcess::drain_timeout};
}

}  // namespace evenkeel
