#include "admin/otlp_collector.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>
#include <vector>

#include "admin/gzip.h"
#include "evenkeel/base/ascii.h"
#include "evenkeel/base/path.h"
#include "evenkeel/http/fields.h"
#include "evenkeel/json/value.h"
#include "evenkeel/json/writer.h"

namespace evenkeel {
namespace {

constexpr std::string_view after_spans = "]}]}]}";
constexpr Duration max_retry_after = std::chrono::seconds(30);

using Pairs = std::vector<std::pair<std::string, std::string>>;

/// Reads KEY=VALUE,... with percent-encoding, as variables of OpenTelemetry have it. A part without
/// a key is left out.
Pairs pairs_of(std::string_view text) {
  Pairs pairs;
  while (!text.empty()) {
    const std::string_view part = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), part.size() + 1));
    const std::size_t equals = part.find('=');
    if (equals == std::string_view::npos) continue;
    const std::string_view key = trimmed(part.substr(0, equals));
    if (key.empty()) continue;
    pairs.emplace_back(percent_decoded(key), percent_decoded(trimmed(part.substr(equals + 1))));
  }
  return pairs;
}

bool may_be_in_head(std::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return static_cast<unsigned char>(c) >= 0x20 && c != 0x7f; });
}

/// True for a field that says how the request is sent.
bool is_own_field(std::string_view name) {
  constexpr std::array<std::string_view, 7> own = {
      "host",       "content-type",   "connection",       "content-encoding",
      "user-agent", "content-length", "transfer-encoding"};
  return std::ranges::any_of(own,
                             [&](std::string_view each) { return equals_ignore_case(each, name); });
}

std::uint64_t number_in(const JsonValue& value) {  // 64 bits are strings in OTLP's JSON
  const std::string& text = value.is_number() ? value.number_text() : value.text();
  std::uint64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

}  // namespace

std::string resource_attributes(const TracingConfig& config, const std::string& version) {
  Pairs pairs = pairs_of(config.resource_attributes);
  const auto set = [&pairs](const char* key, const std::string& value, bool replaces) {
    const auto has_key = [key](const auto& pair) { return pair.first == key; };
    const bool given = std::any_of(pairs.begin(), pairs.end(), has_key);
    if (given && !replaces) return;
    std::erase_if(pairs, has_key);
    pairs.emplace_back(key, value);
  };
  set("service.name", config.service_name.empty() ? "evenkeel" : config.service_name,
      !config.service_name.empty());
  set("service.version", version, false);
  std::string json = "[";
  for (const auto& [key, value] : pairs) {
    if (json.size() > 1) json += ',';
    json += fmt::format(R"({{"key":{},"value":{{"stringValue":{}}}}})", json_string(key),
                        json_string(value));
  }
  return json + "]";
}

OtlpCollector::OtlpCollector(const TracingConfig& config, const std::string& version)
    : fields_("content-type: application/json\r\ncontent-encoding: gzip\r\n"),
      client_(
          {.url = config.otlp, .ca = {}, .version = version, .max_answer_bytes = 1024UL * 1024}) {
  for (const auto& [name, value] : pairs_of(config.headers)) {
    if (!may_be_in_head(name) || !may_be_in_head(value) || is_own_field(name)) continue;
    fields_ += fmt::format("{}: {}\r\n", name, value);
  }
  before_ =
      fmt::format(R"({{"resourceSpans":[{{"resource":{{"attributes":{}}},"scopeSpans":[{{"scope":)"
                  R"({{"name":"evenkeel","version":{}}},"spans":[)",
                  resource_attributes(config, version), json_string(version));
}

std::string OtlpCollector::body_of(std::string_view spans) const {
  std::string json = before_;
  json += spans;
  json += after_spans;
  return gzip(json);
}

OtlpOutcome OtlpCollector::send(const std::string& body, Duration timeout) {
  const auto answer = client_.post(fields_, body, timeout);
  if (answer) return outcome_of(*answer);
  return {.kind = OtlpOutcome::Kind::failed,
          .why = fmt::format("{}: {}", to_string(answer.error().fault), answer.error().detail)};
}

OtlpOutcome OtlpCollector::outcome_of(const HttpAnswer& answer) {
  OtlpOutcome outcome;
  if (answer.status >= 200 && answer.status < 300) {
    const auto document = parse_json(answer.body);
    if (!document) return outcome;  // such as an empty body
    const JsonValue& partial = (*document)["partialSuccess"];
    outcome.rejected_spans = number_in(partial["rejectedSpans"]);
    outcome.why = partial["errorMessage"].text();
    return outcome;
  }
  outcome.why = fmt::format("it answered with status {}", answer.status);
  const bool retried = answer.status == 429 || (answer.status >= 502 && answer.status <= 504);
  outcome.kind = retried ? OtlpOutcome::Kind::failed : OtlpOutcome::Kind::rejected;
  if (retried) outcome.retry_after = retry_after_of(answer, max_retry_after);
  return outcome;
}

}  // namespace evenkeel
