// The table that the demo prints once a second.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "evenkeel/load/report.h"

namespace evenkeel {

/// One backend, from the admin API.
struct BackendRow {
  std::string id;     ///< "127.0.0.1:40001"
  std::string gpu;    ///< the GPU that it simulates
  std::string state;  ///< "up", "down", ...; empty: unknown yet
  std::uint64_t in_flight = 0;
  std::uint64_t picks = 0;
};

/// Updates each row's `state`, `in_flight` and `picks` from a response to GET /api/v1/backends.
void update_rows(std::vector<BackendRow>& rows, std::string_view backends_json);
/// The same from the admin listener at this address. Leaves the rows if it does not answer within
/// half a second.
void fetch_rows(std::vector<BackendRow>& rows, const std::string& admin_address);

/// The table and a line about the load: `total` since the start, `window` of the last `seconds`.
std::string render_table(const std::vector<BackendRow>& rows, const LoadReport& total,
                         const LoadReport& window, double seconds, unsigned in_flight);

/// The same on one line, where stdout is no terminal.
std::string render_line(const std::vector<BackendRow>& rows, const LoadReport& total,
                        const LoadReport& window, double seconds, unsigned in_flight);

}  // namespace evenkeel
