#include "evenkeel/cli/top.h"

#include <fmt/format.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "cli/admin_target.h"
#include "cli/check.h"
#include "cli/exit_codes.h"
#include "cli/terminal.h"
#include "cli/top_view.h"
#include "evenkeel/admin/client.h"

namespace evenkeel {
namespace {

constexpr Duration request_timeout = std::chrono::seconds(5);
constexpr Duration refresh_interval = std::chrono::seconds(1);

/// A snapshot, and the documents that it was read from.
struct TopPoll {
  TopSnapshot snapshot;
  std::string json;  ///< one line
};

Result<TopPoll> poll_daemon(AdminClient& client) {
  TopPoll poll;
  const std::array<std::pair<std::string_view, JsonValue*>, 3> parts = {
      {{"status", &poll.snapshot.status},
       {"pools", &poll.snapshot.pools},
       {"backends", &poll.snapshot.backends}}};
  for (const auto& [name, place] : parts) {
    auto answer = client.get(fmt::format("/api/v1/{}", name), request_timeout);
    if (!answer) return std::move(answer.error());
    auto document = parse_json(answer->body);
    if (answer->status != 200 || !document) {
      return Error{.fault = Fault::backend_protocol,
                   .side = Side::backend,
                   .detail = fmt::format("status {} for its {}; it is not the admin listener of "
                                         "an evenkeel",
                                         answer->status, name)};
    }
    *place = std::move(*document);
    answer->body.erase(answer->body.find_last_not_of('\n') + 1);
    poll.json += fmt::format("{}\"{}\":{}", poll.json.empty() ? "{" : ",", name, answer->body);
  }
  poll.json += "}";
  poll.snapshot.at = Clock::now();
  const auto since_epoch = std::chrono::system_clock::now().time_since_epoch();
  poll.snapshot.since_epoch = std::chrono::duration<double>(since_epoch).count();
  return poll;
}

std::string unreachable_message(const AdminClient& client, const Error& error) {
  return fmt::format("no answer from {}: {}", client.address(), error.detail);
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

  void run(TopPoll first) {
    show(std::move(first));
    while (wait()) {
      auto poll = poll_daemon(client_);
      if (poll) {
        show(std::move(*poll));
      } else {
        show_error(unreachable_message(client_, poll.error()));
      }
    }
  }

 private:
  void show(TopPoll poll) {
    error_.clear();
    before_ = std::move(now_);
    now_ = std::move(poll.snapshot);
    if (json_) {
      print_plain({poll.json});
    } else if (!terminal_.interactive()) {
      print_plain(top_lines(before_, *now_, layout_));
    }
  }

  void show_error(std::string error) {
    error_ = std::move(error);
    if (!terminal_.interactive()) fmt::print(stderr, "evenkeel top: {}\n", error_);
  }

  /// Until the next refresh; redraws as the user wishes. False: the user quits.
  bool wait() {
    const Instant next = Clock::now() + refresh_interval;
    while (true) {
      if (terminal_.interactive()) draw();
      switch (terminal_.wait(next - Clock::now())) {
        case TerminalEvent::timeout: return true;
        case TerminalEvent::quit: return false;
        case TerminalEvent::next_order: layout_.order = next_order(layout_.order); break;
        case TerminalEvent::redraw: break;
      }
    }
  }

  void draw() {
    const TerminalSize size = terminal_size().value_or(TerminalSize{});
    layout_.width = size.columns;
    std::vector<std::string> lines{error_};
    if (error_.empty()) {
      lines = top_lines(before_, *now_, layout_);
      lines.front() += fmt::format(" | by {} (s: next, q: quit)", to_string(layout_.order));
    }
    terminal_.draw(fit(lines, size.columns, size.rows));
  }

  AdminClient& client_;
  bool json_;
  Terminal terminal_;
  TopLayout layout_;
  std::optional<TopSnapshot> before_;
  std::optional<TopSnapshot> now_;
  std::string error_;  ///< empty: the daemon answers
};

}  // namespace

std::vector<std::string> top_orders() { return backend_order_names(); }

int run_top(const TopOptions& options) {
  const auto found = find_target({options.admin, {}}, options.config_file);
  if (const auto* refusal = std::get_if<CommandOutput>(&found)) return print_output(*refusal);
  auto client = AdminClient::open(std::get<AdminTarget>(found));
  if (!client) {
    fmt::print(stderr, "evenkeel top: {}\n", client.error().detail);
    return client.error().fault == Fault::bad_request ? exit_usage : exit_unreachable;
  }
  auto first = poll_daemon(**client);
  if (!first) {
    fmt::print(stderr, "evenkeel top: {}\n", unreachable_message(**client, first.error()));
    return exit_unreachable;
  }
  if (!options.once) {
    TopLoop(**client, options).run(std::move(*first));
  } else if (options.json) {
    print_plain({first->json});
  } else {
    const auto order = backend_order(options.sort).value_or(BackendOrder::state);
    print_plain(top_lines(std::nullopt, first->snapshot, {order, terminal_width()}));
  }
  return exit_done;
}

}  // namespace evenkeel
