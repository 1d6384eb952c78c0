#include "evenkeel/upgrade/upgrade_reports.h"

#include <fmt/format.h>

#include <chrono>
#include <optional>
#include <sstream>
#include <utility>

#include "evenkeel/upgrade/handover_packets.h"

namespace evenkeel {
namespace {

// The first line; then a line per fact: "drained POOL ID", or "in_flight POOL ID COUNT".
constexpr std::string_view first_line = "evenkeel report 1\n";

constexpr Duration read_interval = std::chrono::milliseconds(100);
/// A report looks at all backends. It is sent even if nothing has changed: a process without a free
/// descriptor cannot read one.
constexpr Duration report_interval = std::chrono::seconds(1);

/// The last report that has arrived; empty: none that can be read.
std::optional<ReplacedProcess> receive_report(int channel) {
  std::optional<ReplacedProcess> last;
  while (const auto text = receive_state(channel)) {
    if (auto report = parse_report(*text)) last = std::move(*report);
  }
  return last;
}

void send_report(int channel, const ReplacedProcess& report) {
  [[maybe_unused]] const auto sent = send_state(channel, to_text(report));
}

}  // namespace

ReplacedProcess::Backends drained_backends(const PoolSet& pool_set,
                                           const ReplacedProcess::Backends& before) {
  ReplacedProcess::Backends drained = before;
  for (const PoolSet::PoolEntry& pool : pool_set.pools()) {
    for (const BackendPtr& backend : pool.state->backends()) {
      const bool drains = backend->state().is_out(OutOfRotation::draining);
      if (!drains && drained.empty()) continue;
      ReplacedProcess::Backend key(pool.state->config().name, backend->id());
      if (drains) {
        drained.insert(std::move(key));
      } else {
        drained.erase(key);
      }
    }
  }
  return drained;
}

void apply_drains(const ReplacedProcess::Backends& drained, const ReplacedProcess::Backends& before,
                  const PoolSet& pool_set) {
  if (drained.empty() && before.empty()) return;
  for (const PoolSet::PoolEntry& pool : pool_set.pools()) {
    for (const BackendPtr& backend : pool.state->backends()) {
      const ReplacedProcess::Backend key(pool.state->config().name, backend->id());
      if (drained.contains(key)) {
        backend->state().take_out(OutOfRotation::draining);
      } else if (before.contains(key) && backend->state().is_out(OutOfRotation::draining)) {
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
      const std::uint32_t count = backend->slots().in_flight();
      if (count > 0) report.in_flight[{pool.state->config().name, backend->id()}] += count;
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

Task<void> follow_replaced_process(Loop& loop, int channel, std::function<bool()> runs,
                                   RuntimeStatusPublisher& status) {
  ReplacedProcess::Backends drained;
  Instant next_report{};
  while (!is_abandoned(channel)) {
    const auto report = receive_report(channel);
    const auto now = status.snapshot();
    if (report && *report != now->replaced) {
      status.update([&](RuntimeStatus& next) { next.replaced = *report; });
    }
    if (loop.now() >= next_report) {
      drained = drained_backends(*now->pool_set, drained);
      send_report(channel, {.drained = drained});
      next_report = loop.now() + report_interval;
    }
    co_await loop.sleep_for(read_interval);
  }
  while (!status.snapshot()->replaced->reported && runs()) {
    co_await loop.sleep_for(read_interval);
  }
  status.update([](RuntimeStatus& next) { next.replaced.reset(); });
}

Task<void> report_to_successor(Loop& loop, int channel, RuntimeStatusPublisher& status) {
  ReplacedProcess::Backends drained;
  Instant next_report{};
  while (!is_abandoned(channel)) {
    const auto now = status.snapshot();
    if (auto wanted = receive_report(channel)) {
      apply_drains(wanted->drained, drained, *now->pool_set);
      // A command that drains may be waiting for it.
      if (wanted->drained != drained) next_report = {};
      drained = std::move(wanted->drained);
    }
    const ReplacedProcess* const before = now->replaced ? &*now->replaced : nullptr;
    if (loop.now() >= next_report && (before == nullptr || before->reported)) {
      send_report(channel, report_in_flight(*now->pool_set, before, drained));
      next_report = loop.now() + report_interval;
    }
    co_await loop.sleep_for(read_interval);
  }
}

}  // namespace evenkeel
