// bench_load: the clients of a benchmark. One thread, edge-triggered epoll, requests prepared in
// advance. Prints JSON.
//
//   bench_load --connect ADDRESS [--mode closed|sse|idle|slow] [--connections 64] [--seconds 5]
//   [--requests 0]
//              [--path /v1/chat/completions] [--body-bytes 1024] [--prompts 1] [--model bench]
//              [--header 'k: v']... [--repeats 1]
//
// closed: every connection sends its next request as soon as it has the response, for --seconds or
//         until --requests are answered.
// sse:    every connection reads streams of timestamped events; the delay is from timestamp to
//         arrival.
// idle:   every connection sends one request and stays open until stdin ends (at most --seconds).
// slow:   every connection GETs --path and reads it slowly until stdin ends (at most --seconds).
// idle and slow print {"holding": N} once all connections are open.

#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>
#include <string>
#include <utility>

#include "bench/client_loop.h"
#include "bench/flags.h"
#include "bench/slow_readers.h"
#include "bench/sockets.h"
#include "bench/workloads.h"

namespace evenkeel::bench {
namespace {

struct Plan {
  sockaddr_in peer;
  ChatRequest::Shape shape;
  std::size_t connections = 0;
  std::size_t prompts = 1;
  std::uint64_t requests = 0;
  std::uint64_t start_ns = 0;
  std::uint64_t deadline_ns = 0;

  double seconds() const { return static_cast<double>(monotonic_ns() - start_ns) / 1e9; }
};

double own_cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

std::string quantiles(const LogLinearHistogram& histogram) {
  char text[256];
  std::snprintf(
      text, sizeof text,
      R"({"count": %llu, "mean": %.2f, "p50": %.2f, "p90": %.2f, "p99": %.2f, "max": %.2f})",
      static_cast<unsigned long long>(histogram.count()), histogram.mean_ns() / 1e3,
      histogram.quantile_ns(0.5) / 1e3, histogram.quantile_ns(0.9) / 1e3,
      histogram.quantile_ns(0.99) / 1e3, static_cast<double>(histogram.max_ns()) / 1e3);
  return text;
}

std::string errors(const Failures& failures, std::uint64_t bad_status) {
  char text[256];
  std::snprintf(
      text, sizeof text,
      R"({"connect": %llu, "closed": %llu, "closed_idle": %llu, "protocol": %llu, "status": %llu})",
      static_cast<unsigned long long>(failures.connect),
      static_cast<unsigned long long>(failures.closed),
      static_cast<unsigned long long>(failures.closed_idle),
      static_cast<unsigned long long>(failures.protocol),
      static_cast<unsigned long long>(bad_status));
  return text;
}

void say_holding(std::size_t count) {
  std::printf("{\"holding\": %zu}\n", count);
  std::fflush(stdout);
}

void run_closed(const Plan& plan) {
  ClientLoop loop(plan.peer);
  ClosedLoop workload(loop, make_requests(plan.shape, plan.prompts), plan.requests);
  loop.open(plan.connections);
  loop.run(workload, plan.deadline_ns);
  const double seconds = plan.seconds();
  const auto count = workload.latency().count();
  std::printf(
      R"({"mode": "closed", "connections": %zu, "seconds": %.4f, "requests": %llu, "requests_per_second": %.1f, "payload_bytes": %llu, "load_cpu_seconds": %.4f, "errors": %s, "latency_us": %s})"
      "\n",
      plan.connections, seconds, static_cast<unsigned long long>(count),
      static_cast<double>(count) / seconds,
      static_cast<unsigned long long>(workload.payload_bytes()), own_cpu_seconds(),
      errors(loop.failures(), workload.bad_status()).c_str(),
      quantiles(workload.latency()).c_str());
}

void run_streams(const Plan& plan) {
  ClientLoop loop(plan.peer);
  StreamReaders workload(make_requests(plan.shape, plan.prompts), plan.connections);
  loop.open(plan.connections);
  loop.run(workload, plan.deadline_ns);
  const double seconds = plan.seconds();
  const auto events = workload.delay().count();
  std::printf(
      R"({"mode": "sse", "connections": %zu, "seconds": %.4f, "events": %llu, "events_per_second": %.1f, "streams_finished": %llu, "load_cpu_seconds": %.4f, "errors": %s, "delay_us": %s})"
      "\n",
      plan.connections, seconds, static_cast<unsigned long long>(events),
      static_cast<double>(events) / seconds,
      static_cast<unsigned long long>(workload.finished_streams()), own_cpu_seconds(),
      errors(loop.failures(), workload.bad_status()).c_str(), quantiles(workload.delay()).c_str());
}

void run_idle(const Plan& plan) {
  ClientLoop loop(plan.peer);
  IdleConnections workload(loop, make_requests(plan.shape, 1), plan.connections);
  loop.run(workload, plan.deadline_ns);
  const bool settled = workload.all_idle();
  if (settled) {
    say_holding(plan.connections);
    loop.run(workload, plan.deadline_ns, STDIN_FILENO);
  }
  std::printf(
      R"({"mode": "idle", "connections": %zu, "settled": %s, "seconds": %.4f, "errors": %s})"
      "\n",
      plan.connections, settled ? "true" : "false", plan.seconds(),
      errors(loop.failures(), workload.bad_status()).c_str());
}

void run_slow(const Plan& plan) {
  ChatRequest::Shape get = plan.shape;
  get.body_bytes = 0;
  SlowReaders readers(plan.peer, *ChatRequest(get, 0).numbered(0), SlowReaders::Pace{});
  const bool begun = readers.open(plan.connections, plan.deadline_ns);
  if (begun) {
    say_holding(plan.connections);
    readers.hold(plan.deadline_ns, STDIN_FILENO);
  }
  std::printf(
      R"({"mode": "slow", "connections": %zu, "settled": %s, "seconds": %.4f, "bytes_read": %llu, "lost": %zu})"
      "\n",
      plan.connections, begun ? "true" : "false", plan.seconds(),
      static_cast<unsigned long long>(readers.bytes_read()), readers.lost());
}

void run(Flags& flags) {
  const std::string address = flags.text("--connect", "");
  if (address.empty()) exit_with_usage_error("--connect HOST:PORT is needed");
  const std::string workload = flags.text("--mode", "closed");
  Plan plan;
  plan.peer = parse_address(address);
  plan.connections = flags.number("--connections", 64);
  plan.prompts = flags.number("--prompts", 1);
  plan.requests = flags.number("--requests", 0);
  plan.shape = {.authority = address,
                .path = flags.text("--path", "/v1/chat/completions"),
                .model = flags.text("--model", "bench"),
                .header_lines = flags.all("--header"),
                .body_bytes = flags.number("--body-bytes", 1024),
                .stream = workload == "sse",
                .repeats = flags.number("--repeats", 0) != 0};
  const double seconds = flags.real("--seconds", 5);
  flags.reject_unknown();
  raise_file_limit();
  plan.start_ns = monotonic_ns();
  plan.deadline_ns = plan.start_ns + static_cast<std::uint64_t>(seconds * 1e9);

  if (workload == "closed") return run_closed(plan);
  if (workload == "sse") return run_streams(plan);
  if (workload == "idle") return run_idle(plan);
  if (workload == "slow") return run_slow(plan);
  exit_with_usage_error("--mode closed, sse, idle or slow");
}

}  // namespace
}  // namespace evenkeel::bench

int main(int argument_count, char** arguments) {
  evenkeel::bench::Flags flags(argument_count, arguments);
  evenkeel::bench::run(flags);
}
