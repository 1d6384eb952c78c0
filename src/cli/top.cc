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

#include "cli/admin_client.h"
#include "cli/terminal.h"
#include "cli/top_view.h"

namespace evenkeel {
namespace {

constexpr int exit_done = 0;
constexpr int exit_usage = 2;
constexpr int exit_unreachable = 5;
constexpr Duration request_timeout = std::chrono::seconds(5);
constexpr Duration refresh_interval = std::chrono::seconds(1);

/// A look, and the documents as they came.
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
                   .detail = fmt::format("status {} where an evenkeel's admin listener would give "
                                         "its {}",
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

/// Until the user has seen enough. A daemon that goes away for a while is waited for.
void refresh_until_quit(AdminClient& client, const TopOptions& options, TopPoll first) {
  Terminal terminal(!options.json);
  std::optional<TopSnapshot> before;
  std::optional<TopPoll> now = std::move(first);
  std::vector<std::string> lines;
  TerminalEvent event = TerminalEvent::nothing;
  while (event != TerminalEvent::quit) {
    if (now && options.json) {
      fmt::print("{}\n", now->json);
      std::fflush(stdout);
    } else if (now) {
      lines = top_lines(before, now->snapshot);
      if (!terminal.interactive()) print_plain(lines);
    }
    if (now) before = std::move(now->snapshot);
    now.reset();

    const Instant next = Clock::now() + refresh_interval;
    do {
      if (terminal.interactive()) {
        const auto [columns, rows] = terminal.size();
        terminal.draw(fit(lines, columns, rows));
      }
      event = terminal.wait(next - Clock::now());
    } while (event == TerminalEvent::redraw);
    if (event == TerminalEvent::quit) return;

    auto poll = poll_daemon(client);
    if (poll) {
      now = std::move(*poll);
    } else {
      lines = {unreachable_message(client, poll.error())};
      if (!terminal.interactive()) fmt::print(stderr, "evenkeel top: {}\n", lines.front());
    }
  }
}

}  // namespace

int run_top(const TopOptions& options) {
  auto client = AdminClient::open({.address = options.admin});
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
    refresh_until_quit(**client, options, std::move(*first));
  } else if (options.json) {
    fmt::print("{}\n", first->json);
  } else {
    print_plain(top_lines(std::nullopt, first->snapshot));
  }
  return exit_done;
}

}  // namespace evenkeel
