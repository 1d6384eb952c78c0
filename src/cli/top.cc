#include "evenkeel/cli/top.h"

#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "cli/admin_target.h"
#include "cli/check.h"
#include "cli/requests_text.h"
#include "cli/terminal.h"
#include "cli/top_source.h"
#include "cli/top_view.h"
#include "evenkeel/admin/client.h"
#include "evenkeel/base/exit_codes.h"
#include "evenkeel/base/text_table.h"

namespace evenkeel {
namespace {

constexpr Duration refresh_interval = std::chrono::seconds(1);

/// One line: {"status": {...}, "pools": [...], "backends": [...]}.
std::string snapshot_json(const TopSnapshot& snapshot) {
  return json_text(JsonValue::Object{
      {"status", snapshot.status}, {"pools", snapshot.pools}, {"backends", snapshot.backends}});
}

std::string failure_message(const AdminClient& client, const Error& error) {
  const bool refused = error.side == Side::client;
  return fmt::format("{} {}: {}", refused ? "refused by" : "no answer from", client.address(),
                     error.detail);
}

void print_plain(const std::vector<std::string>& lines) {
  for (const std::string& line : lines) fmt::print("{}\n", line);
  std::fflush(stdout);
}

/// Shows snapshot after snapshot until the user quits. While the daemon does not answer, it says so
/// and tries again.
class TopLoop {
 public:
  TopLoop(AdminClient& client, const TopOptions& options)
      : client_(client), json_(options.json), terminal_(!options.json) {
    layout_.order = backend_order(options.sort).value_or(BackendOrder::state);
  }

  void run(TopSnapshot first) {
    show(std::move(first));
    refreshed_ = Clock::now();
    while (serve_user()) {
      if (Clock::now() < refreshed_ + refresh_interval) continue;
      refresh();
      refreshed_ = Clock::now();
    }
  }

 private:
  void show(TopSnapshot snapshot) {
    error_.clear();
    before_ = std::move(now_);
    now_ = std::move(snapshot);
    if (json_) {
      print_plain({snapshot_json(*now_)});
    } else if (terminal_.interactive()) {
      draw();
    } else {
      print_plain(top_lines(before_, *now_, layout_));
    }
  }

  void show_error(std::string error) {
    const bool is_new = error != error_;
    error_ = std::move(error);
    if (terminal_.interactive()) {
      draw();
    } else if (is_new) {
      fmt::print(stderr, "evenkeel top: {}\n", error_);
    }
  }

  /// Waits for a key, a signal or the next refresh. False: the user quits.
  bool serve_user() {
    switch (terminal_.wait(refreshed_ + refresh_interval - Clock::now())) {
      case TerminalEvent::timeout: return true;
      case TerminalEvent::quit: return false;
      case TerminalEvent::next_order: layout_.order = next_order(layout_.order); break;
      case TerminalEvent::other_view:
        shows_requests_ = !shows_requests_;
        fetch_requests();
        break;
      case TerminalEvent::redraw: break;
    }
    if (terminal_.interactive()) draw();
    return true;
  }

  void refresh() {
    auto snapshot = fetch_snapshot(client_);
    if (!snapshot) return show_error(failure_message(client_, snapshot.error()));
    fetch_requests();
    show(std::move(*snapshot));
  }

  /// Fetches the last requests, while they are shown. If they cannot be had, the snapshots say why.
  void fetch_requests() {
    if (!shows_requests_) return;
    if (auto requests = fetch_recent_requests(client_)) requests_ = std::move(*requests);
  }

  std::vector<std::string> view_lines() {
    if (!shows_requests_) {
      std::vector<std::string> lines = top_lines(before_, *now_, layout_);
      lines.front() +=
          fmt::format(" | by {} (s: next, r: requests, q: quit)", to_string(layout_.order));
      return lines;
    }
    std::vector<std::string> lines = status_text(now_->status, now_->pools, layout_.width);
    lines.front() += " | last requests (r: backends, q: quit)";
    lines.emplace_back();
    for (std::string& line : requests_text(requests_, layout_.width)) {
      lines.push_back(std::move(line));
    }
    return lines;
  }

  void draw() {
    const TerminalSize size = terminal_size().value_or(TerminalSize{});
    layout_.width = size.columns;
    std::vector<std::string> lines{error_};
    if (error_.empty()) lines = view_lines();
    terminal_.draw(fit(lines, size.columns, size.rows));
  }

  AdminClient& client_;
  bool json_;
  Terminal terminal_;
  TopLayout layout_;
  std::optional<TopSnapshot> before_;
  std::optional<TopSnapshot> now_;
  bool shows_requests_ = false;  ///< in place of the backends
  JsonValue requests_;
  Instant refreshed_{};
  std::string error_;  ///< empty: the daemon answers
};

}  // namespace

std::vector<std::string> top_orders() { return backend_order_names(); }

int run_top(const TopOptions& options) {
  const auto found = find_target(options.target, options.config_file);
  if (const auto* refusal = std::get_if<CommandOutput>(&found)) return print_output(*refusal);
  const auto& [target, doubt] = std::get<FoundTarget>(found);
  if (!doubt.empty()) return print_output({exit_failed, {}, doubt});
  auto client = AdminClient::open(target);
  if (!client) {
    fmt::print(stderr, "evenkeel top: {}\n", client.error().detail);
    return client.error().fault == Fault::bad_request ? exit_usage : exit_unreachable;
  }
  auto first = fetch_snapshot(**client);
  if (!first) {
    fmt::print(stderr, "evenkeel top: {}\n", printable(failure_message(**client, first.error())));
    return first.error().side == Side::client ? exit_failed : exit_unreachable;
  }
  if (!options.once) {
    TopLoop(**client, options).run(std::move(*first));
  } else if (options.json) {
    print_plain({snapshot_json(*first)});
  } else {
    const auto order = backend_order(options.sort).value_or(BackendOrder::state);
    print_plain(top_lines(std::nullopt, *first, {order, terminal_width()}));
  }
  return exit_done;
}

}  // namespace evenkeel
