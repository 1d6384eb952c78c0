#include "server/top_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <string_view>
#include <utility>

#include "server/admin_text.h"
#include "server/table.h"

namespace evenkeel {
namespace {

using Name = std::pair<std::string_view, std::string_view>;  // pool, backend

Name name_of(const JsonValue& backend) { return {backend["pool"].text(), backend["id"].text()}; }

}  // namespace

std::vector<double> pick_rates(const TopLook& before, const TopLook& now) {
  std::map<Name, double> picks;
  for (const JsonValue& backend : before.backends.items()) {
    picks[name_of(backend)] = backend["picks_total"].number().value_or(0);
  }
  const double seconds = seconds_of(now.at - before.at);
  std::vector<double> rates;
  for (const JsonValue& backend : now.backends.items()) {
    const auto seen = picks.find(name_of(backend));
    const double total = backend["picks_total"].number().value_or(0);
    const bool went_on = seen != picks.end() && total >= seen->second && seconds > 0;
    rates.push_back(went_on ? (total - seen->second) / seconds : 0);
  }
  return rates;
}

std::vector<std::string> top_lines(const std::optional<TopLook>& before, const TopLook& now) {
  std::vector<double> rates;
  if (before) rates = pick_rates(*before, now);
  std::vector<std::string> lines = status_text(now.status, now.pools);
  if (before) {
    lines.front() += fmt::format(", {} requests/s",
                                 amount_text(std::accumulate(rates.begin(), rates.end(), 0.0)));
  }
  lines.emplace_back();
  for (std::string& line : backends_text(now.backends, now.since_epoch, rates)) {
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
    screen += cut(lines[i], columns);
  }
  if (shown < lines.size()) {
    if (shown > 0) screen += '\n';
    screen += cut(fmt::format("... and {} more", lines.size() - shown), columns);
  }
  return screen;
}

}  // namespace evenkeel
