// A black-box checker of endpoint pickers: what the Endpoint Picker Protocol 1.0.0
// (gateway-api-inference-extension, proposal 004) and Envoy's external processing demand, rule by
// rule.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "evenkeel/base/clock.h"
#include "evenkeel/base/result.h"

namespace evenkeel {

struct PickerCheckOptions {
  std::string url;    ///< "http://host:9002", in clear HTTP/2, or "https://host:9002"
  std::string ca;     ///< file; empty: any certificate is accepted, as data planes do
  std::string model;  ///< of the requests; empty: "test"
  std::string path = "/v1/completions";
  std::vector<std::pair<std::string, std::string>> headers;  ///< of the requests
  /// An endpoint that the picker knows, "ip:port"; empty: the one that it picks first.
  std::string subset;
  Duration timeout = std::chrono::seconds(10);  ///< for an answer
  unsigned streams = 1000;                      ///< at once
  std::string only;                             ///< the only rule to check; empty: all
};

enum class RuleVerdict : std::uint8_t {
  ok,
  failed,
  skipped,  ///< it could not be checked, or is advice that the picker does not follow
};

/// "ok", "FAIL" or "skip".
std::string_view to_string(RuleVerdict verdict);

/// What came of one rule.
struct RuleReport {
  std::string_view name;
  RuleVerdict verdict = RuleVerdict::ok;
  std::string seen;       ///< of the picker
  std::string_view says;  ///< what the protocol demands or advises
};

/// The names of all rules, in the order in which they are checked.
std::vector<std::string> picker_rule_names();

/// Checks a picker and calls `report` after each rule. Blocks. Errors: bad_request if the URL, the
/// endpoint or the file of authorities is none, else what kept the picker from being reached.
Result<Done> check_picker(const PickerCheckOptions& options,
                          const std::function<void(const RuleReport&)>& report);

}  // namespace evenkeel
