#include "evenkeel/server/top.h"

#include <fmt/format.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "server/admin_client.h"
#include "server/terminal.h"
#include "server/top_view.h"

namespace evenkeel {
namespace {

constexpr int exit_done = 0;
constexpr int exit_usage = 2;
constexpr int exit_unreachable = 5;
constexpr Duration patience = std::chrono::seconds(5);
constexpr Duration between_looks = std::chrono::seconds(1);

/// A look, and the documents as they came.
struct Glance {
  TopLook look;
  std::string json;  ///< one line
};

Result<Glance> glance_at(AdminClient& client) {
  Glance glance;
  const std::array<std::pair<std::string_view, JsonValue*>, 3> parts = {
      {{"status", &glance.look.status},
       {"pools", &glance.look.pools},
       {"backends", &glance.look.backends}}};
  for (const auto& [name, place] : parts) {
    auto answer = client.get(fmt::format("/api/v1/{}", name), patience);
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
    glance.json += fmt::format("{}\"{}\":{}", glance.json.empty() ? "{" : ",", name, answer->body);
  }
  glance.json += "}";
  glance.look.at = Clock::now();
  const auto since_epoch = std::chrono::system_clock::now().time_since_epoch();
  glance.look.since_epoch = std::chrono::duration<double>(since_epoch).count();
  return glance;
}

std::string complaint(const AdminClient& client, const Error& error) {
  return fmt::format("no answer from {}: {}", client.address(), error.detail);
}

void print_plain(const std::vector<std::string>& lines) {
  for (const std::string& line : lines) fmt::print("{}\n", line);
  std::fflush(stdout);
}

/// Until the user has seen enough. A daemon that goes away for a while is waited for.
void keep_looking(AdminClient& client, const TopOptions& options, Glance first) {
  Terminal terminal(!options.json);
  std::optional<TopLook> before;
  std::optional<Glance> now = std::move(first);
  std::vector<std::string> lines;
  UserWish wish = UserWish::nothing;
  while (wish != UserWish::quit) {
    if (now && options.json) {
      fmt::print("{}\n", now->json);
      std::fflush(stdout);
    } else if (now) {
      lines = top_lines(before, now->look);
      if (!terminal.drawn()) print_plain(lines);
    }
    if (now) before = std::move(now->look);
    now.reset();

    const Instant next = Clock::now() + between_looks;
    do {
      if (terminal.drawn()) {
        const auto [columns, rows] = terminal.size();
        terminal.draw(fit(lines, columns, rows));
      }
      wish = terminal.wait(next - Clock::now());
    } while (wish == UserWish::redraw);
    if (wish == UserWish::quit) return;

    auto glance = glance_at(client);
    if (glance) {
      now = std::move(*glance);
    } else {
      lines = {complaint(client, glance.error())};
      if (!terminal.drawn()) fmt::print(stderr, "evenkeel top: {}\n", lines.front());
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
  auto first = glance_at(**client);
  if (!first) {
    fmt::print(stderr, "evenkeel top: {}\n", complaint(**client, first.error()));
    return exit_unreachable;
  }
  if (!options.once) {
    keep_looking(**client, options, std::move(*first));
  } else if (options.json) {
    fmt::print("{}\n", first->json);
  } else {
    print_plain(top_lines(std::nullopt, first->look));
  }
  return exit_done;
}

}  // namespace evenkeel
