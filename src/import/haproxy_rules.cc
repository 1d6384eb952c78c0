#include "import/haproxy_rules.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "evenkeel/base/ascii.h"
#include "evenkeel/base/utf8.h"
#include "import/paths.h"

namespace evenkeel::import {
namespace {

enum class Effect { none, refuses, answers, leads_elsewhere };

/// What an `http-request` action or its like does with a request.
Effect effect_of(const HaproxyLine& line) {
  static const std::set<std::string, std::less<>> refusals = {"deny", "reject", "tarpit",
                                                              "silent-drop", "auth"};
  static const std::set<std::string, std::less<>> others = {
      "redirect",     "use-service",   "set-path",    "set-pathq", "set-uri",
      "replace-path", "replace-pathq", "replace-uri", "set-query"};
  const std::string& keyword = line.keyword();
  if (keyword == "redirect") return Effect::leads_elsewhere;
  if (keyword == "block" || keyword.starts_with("reqdeny") || keyword.starts_with("reqideny")) {
    return Effect::refuses;
  }
  const bool is_tcp = keyword == "tcp-request";
  if (keyword != "http-request" && !is_tcp) return Effect::none;
  const std::string_view word = line.word(is_tcp ? 2 : 1);
  const std::string_view action = word.substr(0, word.find('('));
  if (refusals.contains(action)) return Effect::refuses;
  if (action == "return") return Effect::answers;
  const bool elsewhere = others.contains(action) || action.starts_with("lua.");
  return elsewhere ? Effect::leads_elsewhere : Effect::none;
}

/// The word behind a name; empty if there is none.
std::string_view behind(const HaproxyLine& line, std::string_view name) {
  const auto found = std::ranges::find(line.words, name);
  if (found == line.words.end() || found + 1 == line.words.end()) return {};
  return *(found + 1);
}

/// The place of `if` or `unless`, or the number of words.
std::size_t condition_of(const HaproxyLine& line) {
  const auto found = std::ranges::find_if(
      line.words, [](const std::string& word) { return word == "if" || word == "unless"; });
  return static_cast<std::size_t>(found - line.words.begin());
}

/// True if only requests without TLS meet the condition.
bool is_without_tls(const HaproxyLine& line, std::size_t condition) {
  std::string text;
  for (std::size_t at = condition; at < line.words.size(); ++at) text += line.words[at];
  return text == "if!{ssl_fc}" || text == "unless{ssl_fc}";
}

RespondConfig answer_of(const HaproxyLine& line, Effect effect, bool is_said) {
  RespondConfig answer;
  answer.status = effect == Effect::leads_elsewhere ? left_out_status : refused_status;
  if (!is_said) return answer;
  for (const char* name : {"deny_status", "status"}) {
    const auto status = parse_count(behind(line, name));
    if (status && *status >= 200 && *status < 600) answer.status = static_cast<int>(*status);
  }
  if (effect != Effect::answers) return answer;
  if (behind(line, "status").empty()) answer.status = 200;
  const std::string_view body = behind(line, "string");
  if (printable_utf8(body) == body) answer.body = body;
  return answer;
}

/// Adds the routes of a redirection; false if it is none, or one that routes cannot say.
bool add_redirects(const HaproxyLine& line, const std::vector<RouteMatch>& matches,
                   HaproxyRules& rules) {
  const auto word = std::ranges::find(line.words, "redirect");
  if (word == line.words.end() || word + 1 == line.words.end()) return false;
  const bool has_options = std::ranges::any_of(line.words, [](const std::string& each) {
    return each == "drop-query" || each == "set-cookie" || each == "clear-cookie";
  });
  if (has_options) return false;
  const std::string_view kind = *(word + 1);
  const bool keeps_query = std::ranges::find(line.words, "keep-query") != line.words.end();
  const auto code = parse_count(behind(line, "code"));
  std::vector<HaproxyUse> uses;
  for (const RouteMatch& match : matches) {
    auto redirect = haproxy_redirect(kind, behind(line, kind), static_cast<int>(code.value_or(302)),
                                     keeps_query, match.path);
    if (!redirect) return false;
    uses.push_back({.match = match, .line = line.line, .redirect = std::move(redirect)});
  }
  if (rules.answers.size() + uses.size() > max_routes) return false;
  std::ranges::move(uses, std::back_inserter(rules.answers));
  return true;
}

void read_rule(Draft& draft, HaproxyLine& line, HaproxyRules& rules) {
  const Effect effect = effect_of(line);
  if (effect == Effect::none) return;
  line.used = true;
  const std::size_t condition = condition_of(line);
  const bool to_https = behind(line, "scheme") == "https";
  if (to_https || is_without_tls(line, condition)) {
    rules.needs_tls = true;
    draft.leave_out(line.line, line.words, "so addresses without TLS are left out");
    return;
  }
  if (effect == Effect::refuses && behind(line, "deny_status") == "429") {
    draft.leave_out(line.line, line.words, "a limit of rates", true);
    return;
  }
  WideReading wide;
  if (condition < line.words.size()) {
    const auto words = std::span(line.words).subspan(condition + 1);
    wide = line.words[condition] == "if" ? rules.conditions.read_wide(words)
                                         : WideReading{.is_said = false};
  }
  if (wide.is_said && !wide.leaves_rest && add_redirects(line, wide.matches, rules)) return;
  const RespondConfig answer = answer_of(line, effect, wide.is_said);
  std::string why = "the route line-" + std::to_string(line.line) + " answers " +
                    std::to_string(answer.status) + " in its place";
  if (!wide.is_said) why += ", to more than it took: remove it if these requests may go on";
  const bool is_exact = wide.is_said && !wide.leaves_rest;
  if (!is_exact || effect != Effect::answers) draft.leave_out(line.line, line.words, why);
  if (wide.leaves_rest) {
    draft.warn(line.line,
               "the rule takes paths such as /adminx for /admin, or other letter case; here they "
               "go by the other routes");
  }
  for (const RouteMatch& match : wide.matches) {
    if (rules.answers.size() > max_routes) return;
    rules.answers.push_back({.match = match, .line = line.line, .answer = answer, .closes = true});
  }
}

void read_use(Draft& draft, HaproxyLine& line, HaproxyRules& rules) {
  line.used = true;
  if (rules.uses.size() > max_routes) return;
  const std::string& section = line.words[1];
  if (line.words.size() == 2 && section.find('%') == std::string::npos) {
    rules.uses.push_back({{}, section, line.line});
    return;
  }
  const bool has_if = line.word(2) == "if";
  const auto condition = std::span(line.words).subspan(std::min<std::size_t>(line.words.size(), 3));
  const auto found = has_if ? rules.conditions.read(condition) : std::nullopt;
  if (found && section.find('%') == std::string::npos) {
    for (const RouteMatch& match : *found) rules.uses.push_back({match, section, line.line});
    return;
  }
  const WideReading wide = has_if ? rules.conditions.read_wide(condition) : WideReading{};
  draft.leave_out(line.line, line.words,
                  "routes cannot say this condition: where other backends would get its requests, "
                  "the route line-" +
                      std::to_string(line.line) + " answers 501 to all that may meet it");
  RespondConfig answer;
  answer.status = left_out_status;
  for (const RouteMatch& match : wide.matches) {
    rules.uses.push_back({match, section, line.line, answer, true});
  }
}

/// Adds the answer of a path that HAProxy serves itself.
void read_own_page(Draft& draft, HaproxyLine& line, HaproxyRules& rules) {
  const bool is_monitor = line.keyword() == "monitor-uri";
  const bool is_statistics = line.keyword() == "stats" && line.word(1) == "uri";
  if (!is_monitor && !is_statistics) return;
  line.used = true;
  const std::string_view path = line.word(is_monitor ? 1 : 2);
  const auto pattern = path_pattern(path.substr(0, path.find('?')), is_statistics);
  RouteMatch match;
  if (pattern && *pattern != "/**") match.path = *pattern;
  RespondConfig answer;
  if (!is_monitor || !pattern) answer.status = left_out_status;
  if (is_statistics) {
    draft.leave_out(line.line, line.words,
                    "the route line-" + std::to_string(line.line) + " answers 501 in its place");
  }
  rules.answers.push_back({.match = match, .line = line.line, .answer = answer, .closes = true});
}

/// Notes that a field which the file sets or removes reaches backends as clients send it.
void warn_of_field(Draft& draft, HaproxyLine& line) {
  if (line.keyword() == "http-response") {
    if (line.word(1) != "deny") return;
    line.used = true;
    draft.leave_out(line.line, line.words, {}, true);
    return;
  }
  const std::string field = lower_case(line.word(2));
  const std::string_view action = line.word(1);
  const bool changes = line.keyword() == "http-request" &&
                       (action.ends_with("-header") || action == "replace-value");
  if (!changes) return;
  line.used = true;
  if (field.starts_with("x-forwarded-") || field == "x-real-ip" || field == "x-request-id") return;
  draft.leave_out(line.line, line.words, "a field of that name reaches backends as clients send it",
                  true);
}

}  // namespace

void read_haproxy_rules(Draft& draft, HaproxySection& section, HaproxyRules& rules) {
  for (HaproxyLine& line : section.lines) {
    if (line.keyword() == "acl" && line.words.size() > 2) {
      line.used = rules.conditions.add(line.word(1), line.arguments().subspan(1));
    } else if (line.keyword() == "use_backend" && line.words.size() > 1) {
      read_use(draft, line, rules);
    } else {
      read_rule(draft, line, rules);
      read_own_page(draft, line, rules);
      warn_of_field(draft, line);
    }
  }
}

}  // namespace evenkeel::import
