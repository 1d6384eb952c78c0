// The documents of the admin API as text for people.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "evenkeel/base/text_table.h"
#include "evenkeel/json/value.h"

namespace evenkeel {

using Lines = std::vector<std::string>;

/// "17", "1.2k", "3.4M": three figures.
std::string amount_text(double amount);
/// The same of a number in a document; "-" for anything else.
std::string count_text(const JsonValue& value);
/// The same of a time, in seconds, and of a word.
std::string seconds_text(const JsonValue& value);
std::string word_text(const JsonValue& value);
/// A text as it is.
std::string plain_text(const JsonValue& value);
/// "12ms", "1.20s"; "-" for unknown.
std::string latency_text(const std::optional<double>& seconds);
/// "37%"; "-" for unknown.
std::string percent_text(const std::optional<double>& ratio);
/// The limit of which most is used: "37% of 600 requests per minute".
std::string limits_text(const JsonValue& limits);

/// A column of a table of documents.
struct DocumentColumn {
  TableColumn table;
  std::string_view path;  ///< of the value: "latency.ttft_seconds"; empty: the document itself
  std::string (*text)(const JsonValue& value);
};
/// The value at a path; null if there is none.
const JsonValue& value_at(const JsonValue& document, std::string_view path);
/// A row for each document.
Lines documents_text(std::span<const DocumentColumn> columns,
                     const std::vector<JsonValue>& documents, std::optional<std::size_t> width);

/// The daemon's own status, and a row for each pool.
Lines status_text(const JsonValue& status, const JsonValue& pools,
                  std::optional<std::size_t> width = std::nullopt);
/// A line for each problem: file:line:column: error: path: message; help.
Lines problems_text(const JsonValue& problems);
/// Why a request was refused with this status, and the option that helps.
std::string error_text(const JsonValue& document, int status);

/// The order in which backends are listed.
enum class BackendOrder {
  daemon,
  state,
  in_flight,
  rate,
  errors,
  ttft,
  tpot,
  e2e,
  kv,
  gpu,
  backend
};

/// The order with that name, such as "in-flight".
std::optional<BackendOrder> backend_order(std::string_view name);
std::string_view to_string(BackendOrder order);
/// The one after it in the enumeration, or the first.
BackendOrder next_order(BackendOrder order);
/// All of them, in the order of the enumeration.
std::vector<std::string> backend_order_names();

struct BackendsView {
  double now = 0;                             ///< seconds since the epoch
  std::vector<double> rates;                  ///< requests per second of each; empty: no column
  BackendOrder order = BackendOrder::daemon;  ///< `state`: the least available first, then by load
  std::optional<std::size_t> width = std::nullopt;  ///< of the terminal; none: unlimited
};

/// A row for each backend. However narrow, it shows each one's id, state and the reason for it.
Lines backends_text(const JsonValue& backends, const BackendsView& view);

}  // namespace evenkeel
