// What reading the metrics of many backends costs the process that reads: real pollers, real
// sockets, one exposition for all. The servers are a process of their own and answer as uvicorn
// does: the head, then the body.
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

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
#include <vector>

#include "bench/flags.h"
#include "bench/sockets.h"
#include "evenkeel/base/loop.h"
#include "evenkeel/inference/engine_metrics.h"
#include "evenkeel/upstream/metrics_poller.h"

namespace evenkeel::bench {
namespace {

/// The file, its last part again and again until it has so many bytes.
std::string exposition_of(const std::string& path, std::size_t bytes) {
  std::ifstream file(path, std::ios::binary);
  std::string text(std::istreambuf_iterator<char>(file), {});
  if (text.empty()) exit_with_usage_error("--exposition: no such file, or an empty one");
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

struct Server {
  std::string body;
  bool closes;  // after each answer, as HTTP/1.0 does
  std::string head() const {
    std::string head = closes ? "HTTP/1.0 200 OK\r\n" : "HTTP/1.1 200 OK\r\n";
    head += "content-type: text/plain; version=0.0.4\r\n";
    if (!closes) head += "content-length: " + std::to_string(body.size()) + "\r\n";
    return head + "\r\n";
  }
};

struct FunctionHandler {
  FileDescriptor socket;
  std::string spec;
  std::size_t left = 0;  // of the body
};

/// Answers until it is killed.
[[noreturn]] void serve(int listener, const Server& server) {
  const std::string head = server.head();
  const int epoll = epoll_create1(0);
  std::map<int, FunctionHandler> connections;
  epoll_event watched{.events = EPOLLIN, .data = {.fd = listener}};
  epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &watched);
  std::array<epoll_event, 256> events{};
  while (true) {
    const int ready = epoll_wait(epoll, events.data(), static_cast<int>(events.size()), -1);
    for (int i = 0; i < ready; ++i) {
      const int fd = events[static_cast<std::size_t>(i)].data.fd;
      if (fd == listener) {
        while (auto accepted = accept_from(listener)) {
          const int made = accepted.get();
          epoll_event one{.events = EPOLLIN | EPOLLOUT | EPOLLET, .data = {.fd = made}};
          epoll_ctl(epoll, EPOLL_CTL_ADD, made, &one);
          connections[made].socket = std::move(accepted);
        }
        continue;
      }
      FunctionHandler& each = connections[fd];
      std::array<char, 4096> bytes{};
      ssize_t got = 0;
      while ((got = recv(fd, bytes.data(), bytes.size(), 0)) > 0) {
        each.spec.append(bytes.data(), static_cast<std::size_t>(got));
      }
      if (each.spec.ends_with("\r\n\r\n")) {
        each.spec.clear();
        each.left = server.body.size();
        if (send(fd, head.data(), head.size(), MSG_NOSIGNAL) < 0) got = 0;
      }
      while (each.left > 0) {
        const char* from = server.body.data() + server.body.size() - each.left;
        const ssize_t sent = send(fd, from, each.left, MSG_NOSIGNAL);
        if (sent <= 0) break;
        each.left -= static_cast<std::size_t>(sent);
        if (each.left == 0 && server.closes) got = 0;
      }
      if (got == 0) connections.erase(fd);
    }
  }
}

double seconds_of(const timeval& time) {
  return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
}

struct Spent {
  double user = 0;
  double system = 0;
  long switches = 0;
};

Spent spent() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return {seconds_of(usage.ru_utime), seconds_of(usage.ru_stime), usage.ru_nvcsw};
}

/// What reading alone takes, without a network, in seconds of a core.
double parsing_time(const std::string& engine, const std::string& body) {
  constexpr int times = 2000;
  constexpr std::size_t piece = 16 * 1024;  // as it comes from a socket, or larger
  double nothing = 0;
  const Spent before = spent();
  for (int i = 0; i < times; ++i) {
    EngineMetricsReader reader(engine_named(engine));
    for (std::size_t at = 0; at < body.size(); at += piece) {
      reader.read(std::string_view(body).substr(at, piece));
    }
    nothing += reader.reading().running;
  }
  const Spent after = spent();
  const double took = after.user - before.user + after.system - before.system;
  return nothing < 0 ? 0 : took / times;
}

int run(Flags& flags) {
  const auto backends = flags.number("--backends", 1000);
  const auto interval = flags.number("--interval-ms", 1000);
  const double seconds = flags.real("--seconds", 10);
  const std::string engine = flags.text("--engine", "vllm");
  const std::string path = flags.text("--exposition", "tests/inference/expositions/vllm.txt");
  const Server server{.body = exposition_of(path, flags.number("--bytes", 56'000)),
                      .closes = flags.text("--closes", "no") == "yes"};
  flags.reject_unknown();
  raise_file_limit();

  const FileDescriptor listener = listen_on(parse_address("127.0.0.1:0"));
  const sockaddr_in bound = bound_address(listener.get());
  const pid_t servers = fork();
  if (servers < 0) exit_with_errno("fork");
  if (servers == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    serve(listener.get(), server);
  }

  Loop loop;
  GpuExporters exporters(loop, literal_addresses_only(), 1);
  auto addresses = resolve("127.0.0.1", ntohs(bound.sin_port));
  MetricsPollSpec spec{.engine = engine};
  spec.config.path = "/metrics";
  spec.config.interval = std::chrono::milliseconds(interval);
  std::vector<std::unique_ptr<MetricsPoller>> pollers;
  std::vector<BackendPtr> polled;
  for (std::uint64_t i = 0; i < backends; ++i) {
    const ServerAccess access{.addresses = *addresses, .authority = to_text(bound)};
    polled.push_back(std::make_shared<Backend>(BackendSpec{.id = std::to_string(i)}));
    pollers.push_back(
        std::make_unique<MetricsPoller>(loop, spec, access, polled.back(), exporters));
  }
  const auto readings = [&] {
    std::uint64_t total = 0;
    for (const auto& poller : pollers) total += poller->status().engine.readings_total;
    return total;
  };
  const auto turn = [&](double wanted) {
    const auto until = Clock::now() + std::chrono::duration<double>(wanted);
    loop.run_until([] { return false; }, std::chrono::time_point_cast<Duration>(until));
  };
  turn(3 * static_cast<double>(interval) / 1000);  // all are connected and know their rhythm

  const std::uint64_t readings_before = readings();
  const Spent before = spent();
  const Instant began = Clock::now();
  turn(seconds);
  const double wall = std::chrono::duration<double>(Clock::now() - began).count();
  const Spent after = spent();
  const double read = static_cast<double>(readings() - readings_before);

  std::uint64_t failures = 0;
  std::uint64_t known = 0;
  double stretched = 0;
  double took = 0;
  for (std::size_t i = 0; i < pollers.size(); ++i) {
    const PollRecord record = pollers[i]->status().engine;
    failures += record.failures_total;
    stretched = std::max(stretched, std::chrono::duration<double>(record.interval).count());
    took += std::chrono::duration<double>(record.took).count();
    const SignalValues values = polled[i]->load().signals().values();
    if (!std::isnan(values.running) || !std::isnan(values.waiting)) ++known;
  }
  const double parsing = parsing_time(engine, server.body);
  const double cpu = after.user - before.user + after.system - before.system;
  std::printf(
      "backends %lu, every %lu ms, %zu bytes: %.1f readings/s, %.2f %% of a core, %.1f us each "
      "(user %.1f, system %.1f), %.2f waits each; mean time of a reading %.2f ms, longest interval "
      "%.2f s; %lu backends known, %lu failures; parsing alone %.1f us (%.1f GB/s)\n",
      backends, interval, server.body.size(), read / wall, 100 * cpu / wall, 1e6 * cpu / read,
      1e6 * (after.user - before.user) / read, 1e6 * (after.system - before.system) / read,
      static_cast<double>(after.switches - before.switches) / read,
      1e3 * took / static_cast<double>(pollers.size()), stretched, known, failures, 1e6 * parsing,
      1e-9 * static_cast<double>(server.body.size()) / parsing);
  kill(servers, SIGKILL);
  waitpid(servers, nullptr, 0);
  return known == backends && failures == 0 ? 0 : 1;
}

}  // namespace
}  // namespace evenkeel::bench

int main(int argument_count, char** arguments) {
  evenkeel::bench::Flags flags(argument_count, arguments);
  return evenkeel::bench::run(flags);
}
