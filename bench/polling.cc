// Measures what polling the metrics of many backends costs: real pollers, real sockets, the same
// page from every backend. The servers are a process of their own and answer as uvicorn does, first
// the head, then the body.
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bench/flags.h"
#include "bench/sockets.h"
#include "evenkeel/base/loop.h"
#include "evenkeel/inference/engine_metrics.h"
#include "upstream/metrics_poller.h"

namespace evenkeel::bench {
namespace {

/// The file, its second half repeated up to so many bytes.
std::string exposition_of(const std::string& path, std::size_t bytes) {
  std::ifstream file(path, std::ios::binary);
  std::string text(std::istreambuf_iterator<char>(file), {});
  if (text.empty()) exit_with_usage_error("--exposition: no such file, or it is empty");
  std::string_view tail = text;
  tail.remove_prefix(text.size() / 2);
  tail.remove_prefix(tail.find('\n') + 1);
  const std::string again(tail);
  while (bytes != 0 && text.size() + again.size() < bytes) text += again;
  for (std::size_t at = 0; text.size() < bytes && at < again.size();) {
    const std::size_t end = again.find('\n', at) + 1;
    text += again.substr(at, end - at);
    at = end;
  }
  return text;
}

/// The response of every simulated server.
struct Page {
  std::string body;
  bool closes;  // after each response, as HTTP/1.0 does
  std::string head() const {
    std::string head = closes ? "HTTP/1.0 200 OK\r\n" : "HTTP/1.1 200 OK\r\n";
    head += "content-type: text/plain; version=0.0.4\r\n";
    if (!closes) head += "content-length: " + std::to_string(body.size()) + "\r\n";
    return head + "\r\n";
  }
};

/// Answers every request with the same page until the process is killed.
class PageServer {
 public:
  PageServer(int listener, const Page& page)
      : listener_(listener), page_(page), head_(page.head()), epoll_(epoll_create1(0)) {
    watch(listener, EPOLLIN);
  }

  [[noreturn]] void run() {
    std::array<epoll_event, 256> events{};
    while (true) {
      const int ready = epoll_wait(epoll_, events.data(), static_cast<int>(events.size()), -1);
      for (int i = 0; i < ready; ++i) {
        const int fd = events[static_cast<std::size_t>(i)].data.fd;
        if (fd == listener_) {
          accept_all();
        } else if (!advance(fd, connections_[fd])) {
          connections_.erase(fd);
        }
      }
    }
  }

 private:
  struct Connection {
    FileDescriptor socket;
    std::string request;
    std::size_t unsent = 0;  // of the body
  };

  void watch(int fd, std::uint32_t events) const {
    epoll_event event{.events = events, .data = {.fd = fd}};
    epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &event);
  }

  void accept_all() {
    while (auto accepted = accept_from(listener_)) {
      const int fd = accepted.get();
      watch(fd, EPOLLIN | EPOLLOUT | EPOLLET);
      connections_[fd].socket = std::move(accepted);
    }
  }

  /// Reads and writes as far as possible. False: the connection is done.
  bool advance(int fd, Connection& connection) const {
    std::array<char, 4096> bytes{};
    ssize_t received = 0;
    while ((received = recv(fd, bytes.data(), bytes.size(), 0)) > 0) {
      connection.request.append(bytes.data(), static_cast<std::size_t>(received));
    }
    if (received == 0) return false;
    if (connection.request.ends_with("\r\n\r\n")) {
      connection.request.clear();
      connection.unsent = page_.body.size();
      if (send(fd, head_.data(), head_.size(), MSG_NOSIGNAL) < 0) return false;
    }
    while (connection.unsent > 0) {
      const char* from = page_.body.data() + page_.body.size() - connection.unsent;
      const ssize_t sent = send(fd, from, connection.unsent, MSG_NOSIGNAL);
      if (sent <= 0) break;
      connection.unsent -= static_cast<std::size_t>(sent);
      if (connection.unsent == 0 && page_.closes) return false;
    }
    return true;
  }

  int listener_;
  const Page& page_;
  std::string head_;
  int epoll_;
  std::map<int, Connection> connections_;
};

double seconds_of(const timeval& time) {
  return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
}

struct CpuTime {
  double user = 0;
  double system = 0;
  long waits = 0;  // voluntary context switches

  double total() const { return user + system; }
};

CpuTime cpu_time() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return {seconds_of(usage.ru_utime), seconds_of(usage.ru_stime), usage.ru_nvcsw};
}

CpuTime operator-(const CpuTime& a, const CpuTime& b) {
  return {a.user - b.user, a.system - b.system, a.waits - b.waits};
}

/// CPU seconds to parse one page, without a network.
double parsing_time(const std::string& engine, const std::string& body) {
  constexpr int times = 2000;
  constexpr std::size_t piece = 16 * 1024;  // a read from a socket, or more
  double running = 0;
  const CpuTime before = cpu_time();
  for (int i = 0; i < times; ++i) {
    EngineMetricsReader reader(engine_named(engine));
    for (std::size_t at = 0; at < body.size(); at += piece) {
      reader.read(std::string_view(body).substr(at, piece));
    }
    running += reader.reading().running;  // keeps the compiler from dropping the loop
  }
  const double seconds = (cpu_time() - before).total();
  return running < 0 ? 0 : seconds / times;
}

struct Settings {
  std::uint64_t backends;
  std::uint64_t interval_ms;
  double seconds;
  std::string engine;
};

/// Real pollers for so many backends, all of which are the one at `address`.
class PollingRun {
 public:
  PollingRun(const Settings& settings, const sockaddr_in& address)
      : exporters_(
            loop_,
            [](const std::string& host, std::uint16_t port) {
              return Task<Result<std::vector<Endpoint>>>(resolve(host, port));
            },
            1) {
    const auto addresses = resolve("127.0.0.1", ntohs(address.sin_port));
    MetricsPollSpec spec{.engine = settings.engine};
    spec.config.path = "/metrics";
    spec.config.interval = std::chrono::milliseconds(settings.interval_ms);
    for (std::uint64_t i = 0; i < settings.backends; ++i) {
      const ServerAccess access{.addresses = *addresses, .authority = to_text(address)};
      backends_.push_back(std::make_shared<Backend>(BackendSpec{.id = std::to_string(i)}));
      pollers_.push_back(
          std::make_unique<MetricsPoller>(loop_, spec, access, backends_.back(), exporters_));
    }
  }

  void turn(double seconds) {
    const auto until = Clock::now() + std::chrono::duration<double>(seconds);
    loop_.run_until([] { return false; }, std::chrono::time_point_cast<Duration>(until));
  }

  std::uint64_t readings() const {
    std::uint64_t total = 0;
    for (const auto& poller : pollers_) total += poller->status().engine.readings_total;
    return total;
  }

  struct Summary {
    std::uint64_t failures = 0;
    std::uint64_t known = 0;       // backends with fresh values
    double max_interval = 0;       // seconds
    double mean_reading_time = 0;  // seconds
  };
  Summary summary() const {
    Summary sum;
    double reading_time = 0;
    for (std::size_t i = 0; i < pollers_.size(); ++i) {
      const PollRecord record = pollers_[i]->status().engine;
      sum.failures += record.failures_total;
      sum.max_interval = std::max(sum.max_interval, seconds(record.interval));
      reading_time += seconds(record.took);
      const LoadSample values = backends_[i]->signals().values();
      if (!std::isnan(values.running) || !std::isnan(values.waiting)) ++sum.known;
    }
    sum.mean_reading_time = reading_time / static_cast<double>(pollers_.size());
    return sum;
  }

 private:
  static double seconds(Duration duration) {
    return std::chrono::duration<double>(duration).count();
  }

  Loop loop_;
  GpuExporters exporters_;
  std::vector<BackendPtr> backends_;
  std::vector<std::unique_ptr<MetricsPoller>> pollers_;
};

/// Measures for the given time and prints one line. True: every backend was read without failure.
bool measure(const Settings& settings, const Page& page, PollingRun& polling) {
  polling.turn(3 * static_cast<double>(settings.interval_ms) / 1000);  // until all are connected
  const std::uint64_t readings_before = polling.readings();
  const CpuTime before = cpu_time();
  const Instant start = Clock::now();
  polling.turn(settings.seconds);
  const double wall = std::chrono::duration<double>(Clock::now() - start).count();
  const CpuTime cpu = cpu_time() - before;
  const double readings = static_cast<double>(polling.readings() - readings_before);

  const auto sum = polling.summary();
  const double parsing = parsing_time(settings.engine, page.body);
  std::printf(
      "backends %lu, every %lu ms, %zu bytes: %.1f readings/s, %.2f %% of a core, %.1f us each "
      "(user %.1f, system %.1f), %.2f waits each; mean time of a reading %.2f ms, longest interval "
      "%.2f s; %lu backends known, %lu failures; parsing alone %.1f us (%.1f GB/s)\n",
      settings.backends, settings.interval_ms, page.body.size(), readings / wall,
      100 * cpu.total() / wall, 1e6 * cpu.total() / readings, 1e6 * cpu.user / readings,
      1e6 * cpu.system / readings, static_cast<double>(cpu.waits) / readings,
      1e3 * sum.mean_reading_time, sum.max_interval, sum.known, sum.failures, 1e6 * parsing,
      1e-9 * static_cast<double>(page.body.size()) / parsing);
  return sum.known == settings.backends && sum.failures == 0;
}

int run(Flags& flags) {
  const Settings settings{.backends = flags.number("--backends", 1000),
                          .interval_ms = flags.number("--interval-ms", 1000),
                          .seconds = flags.real("--seconds", 10),
                          .engine = flags.text("--engine", "vllm")};
  const std::string path = flags.text("--exposition", "tests/inference/expositions/vllm.txt");
  const Page page{.body = exposition_of(path, flags.number("--bytes", 56'000)),
                  .closes = flags.text("--closes", "no") == "yes"};
  flags.reject_unknown();
  raise_file_limit();

  const FileDescriptor listener = listen_on(parse_address("127.0.0.1:0"));
  const pid_t servers = fork();
  if (servers < 0) exit_with_errno("fork");
  if (servers == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    PageServer(listener.get(), page).run();
  }
  PollingRun polling(settings, bound_address(listener.get()));
  const bool complete = measure(settings, page, polling);
  kill(servers, SIGKILL);
  waitpid(servers, nullptr, 0);
  return complete ? 0 : 1;
}

}  // namespace
}  // namespace evenkeel::bench

int main(int argument_count, char** arguments) {
  evenkeel::bench::Flags flags(argument_count, arguments);
  return evenkeel::bench::run(flags);
}
