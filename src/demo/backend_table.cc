#include "demo/backend_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <iterator>

#include "evenkeel/json/value.h"
#include "evenkeel/load/target.h"
#include "evenkeel/upstream/backend_client.h"

namespace evenkeel {
namespace {

constexpr std::size_t bar_width = 20;

double share_of(const std::vector<BackendRow>& rows, const BackendRow& row) {
  std::uint64_t all = 0;
  for (const BackendRow& other : rows) all += other.picks;
  return all == 0 ? 0 : static_cast<double>(row.picks) / static_cast<double>(all);
}

std::string p50_text(const HdrHistogram& durations) {
  return durations.count() == 0 ? "-" : format_duration(durations.quantile(0.5));
}

std::string load_text(const LoadReport& total, const LoadReport& window, double seconds,
                      unsigned in_flight) {
  const double span = std::max(seconds, 1e-3);
  std::string text = fmt::format("{:.1f} req/s  {:.0f} tok/s  {} in flight",
                                 static_cast<double>(window.succeeded) / span,
                                 static_cast<double>(window.output_tokens) / span, in_flight);
  if (window.ttft.count() != 0) {
    text += fmt::format("  TTFT p50 {} p99 {}", format_duration(window.ttft.quantile(0.5)),
                        format_duration(window.ttft.quantile(0.99)));
  }
  return text + fmt::format("  {} done  {} failed", total.succeeded, total.failed);
}

}  // namespace

void update_rows(std::vector<BackendRow>& rows, std::string_view backends_json) {
  const auto backends = parse_json(backends_json);
  if (!backends) return;
  for (const JsonValue& backend : backends->items()) {
    const auto row = std::ranges::find(rows, backend["id"].text(), &BackendRow::id);
    if (row == rows.end()) continue;
    row->state = backend["state"].text();
    row->in_flight = static_cast<std::uint64_t>(backend["in_flight"].number().value_or(0));
    row->picks = static_cast<std::uint64_t>(backend["picks_total"].number().value_or(0));
  }
}

void fetch_rows(std::vector<BackendRow>& rows, const std::string& admin_address) {
  const auto target = resolve_target("http://" + admin_address);
  if (!target) return;
  const auto backends = fetch_blocking(
      {.addresses = target->endpoints, .authority = admin_address, .path = "/api/v1/backends"},
      std::chrono::milliseconds(500));
  if (backends && backends->status == 200 && backends->complete) update_rows(rows, backends->body);
}

std::string render_table(const std::vector<BackendRow>& rows, const LoadReport& total,
                         const LoadReport& window, double seconds, unsigned in_flight) {
  std::string out;
  const auto line = [&out]<class... Values>(fmt::format_string<Values...> format,
                                            Values&&... values) {
    fmt::format_to(std::back_inserter(out), format, std::forward<Values>(values)...);
    out += '\n';
  };
  line("{:<22}{:<14}{:<10}{:>10}{:>9}{:>8}  {:<{}}{:>10}", "backend", "GPU", "state", "in flight",
       "picks", "share", "", bar_width, "TTFT p50");
  for (const BackendRow& row : rows) {
    const double share = share_of(rows, row);
    const auto bar = static_cast<std::size_t>(share * static_cast<double>(bar_width) + 0.5);
    const auto seen = window.backends.find(row.id);
    line("{:<22}{:<14}{:<10}{:>10}{:>9}{:>7.1f}%  {:<{}}{:>10}", row.id, row.gpu,
         row.state.empty() ? "?" : row.state, row.in_flight, row.picks, 100 * share,
         std::string(bar, '#'), bar_width,
         seen == window.backends.end() ? "-" : p50_text(seen->second.ttft));
  }
  line("{:.0f} s  {}", seconds_of(total.elapsed), load_text(total, window, seconds, in_flight));
  return out;
}

std::string render_line(const std::vector<BackendRow>& rows, const LoadReport& total,
                        const LoadReport& window, double seconds, unsigned in_flight) {
  std::string out = fmt::format("{:>4.0f} s  {}  share", seconds_of(total.elapsed),
                                load_text(total, window, seconds, in_flight));
  for (const BackendRow& row : rows) {
    out += fmt::format("{}{:.0f}", &row == &rows.front() ? " " : "/", 100 * share_of(rows, row));
  }
  return out + " %\n";
}

}  // namespace evenkeel
