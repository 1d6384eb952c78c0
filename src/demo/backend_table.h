// What the demo shows, once a second.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "evenkeel/load/report.h"

namespace evenkeel {

/// One backend as the admin listener tells of it, and as the load sees it.
struct BackendRow {
  std::string id;     ///< "127.0.0.1:40001"
  std::string gpu;    ///< what it plays
  std::string state;  ///< "up", "down", ...; empty: the balancer has not said
  std::uint64_t in_flight = 0;
  std::uint64_t picks = 0;
};

/// Takes `state`, `in_flight` and `picks_total` of each row's backend out of the answer of
/// GET /api/v1/backends.
void update_rows(std::vector<BackendRow>& rows, std::string_view backends_json);

/// The table, and below it a line about the load: `total` since the start, `window` of the last
/// `seconds`.
std::string render_table(const std::vector<BackendRow>& rows, const LoadReport& total,
                         const LoadReport& window, double seconds, unsigned in_flight);

/// The same on one line, for a log.
std::string render_line(const std::vector<BackendRow>& rows, const LoadReport& total,
                        const LoadReport& window, double seconds, unsigned in_flight);

}  // namespace evenkeel
