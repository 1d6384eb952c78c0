// The verb `picker`.
#include <fmt/format.h>

#include <array>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cli/option_values.h"
#include "cli/verbs.h"
#include "evenkeel/base/exit_codes.h"
#include "evenkeel/base/text_table.h"
#include "evenkeel/epp/checker.h"
#include "evenkeel/json/value.h"
#include "evenkeel/load/load.h"

namespace evenkeel {
namespace {

struct PickerVerbOptions {
  PickerCheckOptions check;
  bool json = false;
};

/// How many rules came to each verdict.
struct RuleCounts {
  std::array<int, 3> by_verdict{};

  void count(RuleVerdict verdict) { ++by_verdict[static_cast<std::size_t>(verdict)]; }
  int of(RuleVerdict verdict) const { return by_verdict[static_cast<std::size_t>(verdict)]; }
};

void print_line(const RuleReport& report) {
  fmt::print("{:<4}  {:<19}  {} / {}\n", to_string(report.verdict), report.name,
             printable(report.seen), report.says);
  std::fflush(stdout);
}

JsonValue json_of(const RuleReport& report) {
  constexpr std::array<const char*, 3> words = {"ok", "failed", "skipped"};
  JsonValue rule;
  rule.add("name", report.name);
  rule.add("verdict", words[static_cast<std::size_t>(report.verdict)]);
  rule.add("seen", report.seen);
  rule.add("says", report.says);
  return rule;
}

void print_json(const std::string& url, JsonValue::List rules, const RuleCounts& counts) {
  JsonValue document;
  document.add("url", url);
  document.add("rules", std::move(rules));
  document.add("ok", counts.of(RuleVerdict::ok));
  document.add("failed", counts.of(RuleVerdict::failed));
  document.add("skipped", counts.of(RuleVerdict::skipped));
  fmt::print("{}\n", json_text(document));
}

int check(const PickerVerbOptions& options) {
  RuleCounts counts;
  JsonValue::List rules;
  const auto checked = check_picker(options.check, [&](const RuleReport& report) {
    counts.count(report.verdict);
    if (options.json) {
      rules.push_back(json_of(report));
    } else {
      print_line(report);
    }
  });
  if (!checked) {
    fmt::print(stderr, "evenkeel picker check: {}\n", printable(checked.error().detail));
    return exit_usage;
  }
  const int failed = counts.of(RuleVerdict::failed);
  if (options.json) {
    print_json(options.check.url, std::move(rules), counts);
  } else {
    const int ok = counts.of(RuleVerdict::ok);
    const int skipped = counts.of(RuleVerdict::skipped);
    fmt::print("{} rules: {} ok, {} failed, {} skipped\n", ok + failed + skipped, ok, failed,
               skipped);
  }
  return failed == 0 ? exit_done : exit_failed;
}

void add_request_options(CLI::App& verb, const std::shared_ptr<PickerVerbOptions>& options) {
  PickerCheckOptions& check = options->check;
  verb.add_option("--model", check.model, "Model of the requests; default: test");
  verb.add_option("--path", check.path, "Path of the requests")->capture_default_str();
  verb.add_option_function<std::vector<std::string>>(
          "--header",
          [options](const std::vector<std::string>& headers) {
            for (const std::string& header : headers) {
              options->check.headers.push_back(
                  value_or_usage_error("--header", parse_header_option(header)));
            }
          },
          "'Name: value' of the requests; may be repeated")
      ->allow_extra_args(false);
  verb.add_option("--subset", check.subset,
                  "An endpoint that the picker knows; default: the one that it picks first")
      ->type_name("IP:PORT");
}

void add_check_options(CLI::App& verb, const std::shared_ptr<PickerVerbOptions>& options) {
  PickerCheckOptions& check = options->check;
  verb.add_option("--ca", check.ca,
                  "Authorities of the picker's certificate; default: any certificate is accepted")
      ->type_name("FILE");
  add_duration_option(verb, "--timeout", "How long an answer may take; default: 10s",
                      [options](Duration timeout) { options->check.timeout = timeout; });
  verb.add_option("--streams", check.streams, "Streams at once")
      ->check(above_zero())
      ->capture_default_str();
  verb.add_option("--only", check.only, "The only rule to check")
      ->check(one_of(picker_rule_names()));
  verb.add_flag("--json", options->json, "Print one JSON document");
}

}  // namespace

void add_picker_verb(CLI::App& app, Invocation& invocation) {
  auto* verb = app.add_subcommand("picker", "Check endpoint pickers");
  verb->require_subcommand(1);
  auto* checks = verb->add_subcommand(
      "check", "Tell whether a server keeps the rules of the Endpoint Picker Protocol");
  auto options = std::make_shared<PickerVerbOptions>();
  checks->add_option("url", options->check.url, "http://host:9002, in clear HTTP/2, or https://")
      ->required();
  add_request_options(*checks, options);
  add_check_options(*checks, options);
  checks->footer(
      "One line for each rule: what was seen / what the protocol says. Advice that is not "
      "followed\n"
      "is skipped. Requests of up to 20 MB are sent; none of them reaches a model server.\n"
      "Exit codes: 0 every rule holds, 1 one fails, 2 usage, or no picker at the URL.");
  checks->callback([options, &invocation] { invocation.exit_code = check(*options); });
}

}  // namespace evenkeel
