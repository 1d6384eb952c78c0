#include "cli/top_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <string_view>
#include <utility>

#include "evenkeel/base/text_table.h"

namespace evenkeel {
namespace {

using BackendKey = std::pair<std::string_view, std::string_view>;  // pool, backend

BackendKey key_of(const JsonValue& backend) {
  return {backend["pool"].text(), backend["id"].text()};
}

}  // namespace

std::vector<double> pick_rates(const TopSnapshot& before, const TopSnapshot& now) {
  std::map<BackendKey, double> picks;
  for (const JsonValue& backend : before.backends.items()) {
    picks[key_of(backend)] = backend["picks_total"].number().value_or(0);
  }
  const double seconds = seconds_of(now.at - before.at);
  std::vector<double> rates;
  for (const JsonValue& backend : now.backends.items()) {
    const auto previous = picks.find(key_of(backend));
    const double total = backend["picks_total"].number().value_or(0);
    const bool comparable = previous != picks.end() && total >= previous->second && seconds > 0;
    rates.push_back(comparable ? (total - previous->second) / seconds : 0);
  }
  return rates;
}

std::vector<std::string> top_lines(const std::optional<TopSnapshot>& before, const TopSnapshot& now,
                                   const TopLayout& layout) {
  std::vector<double> rates;
  if (before) rates = pick_rates(*before, now);
  std::vector<std::string> lines = status_text(now.status, now.pools, layout.width);
  if (before) {
    lines.front() += fmt::format(", {} requests/s",
                                 amount_text(std::accumulate(rates.begin(), rates.end(), 0.0)));
  }
  lines.emplace_back();
  const BackendsView view{now.since_epoch, std::move(rates), layout.order, layout.width};
  for (std::string& line : backends_text(now.backends, view)) {
    lines.push_back(std::move(line));
  }
  return lines;
}

std::string fit(const std::vector<std::string>& lines, std::size_t columns, std::size_t rows) {
  const std::size_t shown =
      lines.size() <= rows ? lines.size() : std::max<std::size_t>(rows, 1) - 1;
  std::string screen;
  for (std::size_t i = 0; i < shown; ++i) {
    if (i > 0) screen += '\n';
    screen += truncated(lines[i], columns);
  }
  if (shown < lines.size()) {
    if (shown > 0) screen += '\n';
    screen += truncated(fmt::format("... and {} more", lines.size() - shown), columns);
  }
  return screen;
}

}  // namespace evenkeel
