#include "server/upgrade_reports.h"

#include <fmt/format.h>

#include <chrono>
#include <optional>
#include <sstream>
#include <utility>

#include "server/handover_packets.h"

namespace evenkeel {
namespace {

// The first line; then a line per fact: "drained POOL ID", or "in_flight POOL ID COUNT".
constexpr std::string_view first_line = "evenkeel report 1\n";

constexpr Duration report_interval = std::chrono::milliseconds(100);

/// The last report that has arrived; empty: none that can be read.
std::optional<ReplacedProcess> receive_report(int channel) {
  std::string last;
  while (true) {
    std::string text = receive_state(channel);
    if (text.empty()) break;
    last = std::move(text);
  }
  auto report = parse_report(last);
  return report ? std::optional(std::move(*report)) : std::nullopt;
}

/// Sends reports that say something new.
class Reporter {
 public:
  explicit Reporter(int channel) : channel_(channel) {}

  void send(const ReplacedProcess& report) {
    std::string text = to_text(report);
    if (text != sent_ && send_state(channel_, text)) sent_ = std::move(text);
  }

 private:
  int channel_;
  std::string sent_;
};

}  // namespace

ReplacedProcess::Backends drained_backends(const PoolSet& pool_set) {
  ReplacedProcess::Backends drained;
  for (const PoolSet::PoolEntry& pool : pool_set.pools()) {
    for (const BackendPtr& backend : pool.state->backends()) {
      if (!backend->load().is_out(OutOfRotation::draining)) continue;
      drained.emplace(pool.state->spec().name, backend->id());
    }
  }
  return drained;
}

void apply_drains(const ReplacedProcess::Backends& drained, const PoolSet& pool_set) {
  for (const PoolSet::PoolEntry& pool : pool_set.pools()) {
    for (const BackendPtr& backend : pool.state->backends()) {
      if (drained.contains({pool.state->spec().name, backend->id()})) {
        backend->load().take_out(OutOfRotation::draining);
      } else if (backend->load().is_out(OutOfRotation::draining)) {
        backend->put_back(OutOfRotation::draining);
      }
    }
  }
}

ReplacedProcess report_in_flight(const PoolSet& pool_set, const ReplacedProcess* before,
                                 const ReplacedProcess::Backends& drained) {
  ReplacedProcess report{.reported = true, .drained = drained};
  if (before != nullptr) {
    report.in_flight = before->in_flight;
    std::erase_if(report.drained,
                  [&](const auto& each) { return !before->drained.contains(each); });
  }
  for (const PoolSet::PoolEntry& pool : pool_set.pools()) {
    for (const BackendPtr& backend : pool.state->backends()) {
      const std::uint32_t count = backend->load().in_flight();
      if (count > 0) report.in_flight[{pool.state->spec().name, backend->id()}] += count;
    }
  }
  return report;
}

std::string to_text(const ReplacedProcess& report) {
  std::string text(first_line);
  for (const auto& [pool, id] : report.drained) text += fmt::format("drained {} {}\n", pool, id);
  for (const auto& [backend, count] : report.in_flight) {
    text += fmt::format("in_flight {} {} {}\n", backend.first, backend.second, count);
  }
  return text;
}

Result<ReplacedProcess> parse_report(std::string_view text) {
  const auto unknown_format = [] {
    return Error{.fault = Fault::internal, .detail = "a report of another version"};
  };
  if (!text.starts_with(first_line)) return unknown_format();
  ReplacedProcess report{.reported = true};
  std::istringstream words{std::string(text.substr(first_line.size()))};
  std::string kind;
  while (words >> kind) {
    std::pair<std::string, std::string> backend;
    words >> backend.first >> backend.second;
    std::uint64_t count = 0;
    if (kind == "in_flight") words >> count;
    if (!words || (kind != "in_flight" && kind != "drained")) return unknown_format();
    if (kind == "drained") {
      report.drained.insert(std::move(backend));
    } else {
      report.in_flight[std::move(backend)] += count;
    }
  }
  return report;
}

Task<void> follow_replaced_process(Loop& loop, int channel, RuntimeStatusPublisher& status) {
  Reporter reporter(channel);
  while (!is_abandoned(channel)) {
    const auto report = receive_report(channel);
    const auto now = status.snapshot();
    if (report && *report != now->replaced) {
      status.update([&](RuntimeStatus& next) { next.replaced = *report; });
    }
    reporter.send({.drained = drained_backends(*now->pool_set)});
    co_await loop.sleep_for(report_interval);
  }
  status.update([](RuntimeStatus& next) { next.replaced.reset(); });
}

Task<void> report_to_successor(Loop& loop, int channel, RuntimeStatusPublisher& status) {
  Reporter reporter(channel);
  ReplacedProcess::Backends drained;
  while (!is_abandoned(channel)) {
    const auto now = status.snapshot();
    if (auto wanted = receive_report(channel)) {
      drained = std::move(wanted->drained);
      apply_drains(drained, *now->pool_set);
    }
    const ReplacedProcess* const before = now->replaced ? &*now->replaced : nullptr;
    if (before == nullptr || before->reported)
      reporter.send(report_in_flight(*now->pool_set, before, drained));
    co_await loop.sleep_for(report_interval);
  }
}

}  // namespace evenkeel
