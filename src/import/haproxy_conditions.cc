#include "import/haproxy_conditions.h"

#include <algorithm>
#include <utility>

#include "evenkeel/base/ascii.h"
#include "evenkeel/base/host.h"
#include "evenkeel/base/utf8.h"
#include "import/draft.h"

namespace evenkeel::import {
namespace {

constexpr std::size_t max_alternatives = 256;

enum class Field { path, host, header, method };
enum class Way { exact, beginning, end };

/// What an ACL looks at, and how it compares.
struct Criterion {
  Field field = Field::path;
  Way way = Way::exact;
  std::string header;
  bool is_narrow = false;  ///< a route takes less: the SNI for the host
};

/// "hdr_end(host)" and its like.
std::optional<Criterion> criterion_of(std::string_view word) {
  // Converters say something else, but for those that routes have in themselves.
  const std::size_t comma = word.find(',');
  const std::string_view converters = word.substr(std::min(comma, word.size()));
  const bool is_same = converters == ",lower" || converters == ",host_only" ||
                       converters == ",host_only,lower" || converters == ",lower,host_only" ||
                       converters == ",field(1,:)" || converters == ",url_dec";
  if (!converters.empty() && !is_same) return std::nullopt;
  word = word.substr(0, comma);
  const std::size_t open = word.find('(');
  std::string_view argument;
  if (open != word.npos && word.ends_with(')')) {
    argument = word.substr(open + 1, word.size() - open - 2);
    word = word.substr(0, open);
  }
  if (word.starts_with("req.")) word.remove_prefix(4);
  Criterion found;
  const std::string_view base = word.substr(0, word.find('_'));
  const std::string_view way = base.size() < word.size() ? word.substr(base.size() + 1) : "";
  if (word == "method" || word == "ssl_fc_sni") {
    found.field = word == "method" ? Field::method : Field::host;
    found.is_narrow = word == "ssl_fc_sni";
    return found;
  }
  if (way == "beg") found.way = Way::beginning;
  if (way == "end") found.way = Way::end;
  if (!way.empty() && found.way == Way::exact) return std::nullopt;
  if (base == "path" && argument.empty()) return found;
  const auto header = field_name(argument);
  if ((base != "hdr" && base != "fhdr") || !header) return std::nullopt;
  found.header = *header;
  found.field = found.header == "host" ? Field::host : Field::header;
  return found;
}

std::optional<RouteMatch> match_of(const Criterion& criterion, const std::string& value) {
  RouteMatch match;
  switch (criterion.field) {
    case Field::path: {
      if (criterion.way == Way::end) return std::nullopt;
      const auto path = path_pattern(value, criterion.way == Way::beginning);
      if (!path) return std::nullopt;
      if (*path != "/**") match.path = *path;
      return match;
    }
    case Field::host: {
      if (criterion.way == Way::beginning) return std::nullopt;
      const bool below = criterion.way == Way::end;
      if (below && !value.starts_with('.')) return std::nullopt;
      const auto host = host_pattern(below ? std::string_view(value) : host_of(value));
      if (!host) return std::nullopt;
      match.host = *host;
      return match;
    }
    case Field::header:
      if (criterion.way != Way::exact || value.empty() || printable_utf8(value) != value) {
        return std::nullopt;
      }
      match.header[criterion.header] = value;
      return match;
    case Field::method:
      if (value.empty() || !std::ranges::all_of(value, is_letter)) return std::nullopt;
      match.method.push_back(value);
      std::ranges::transform(match.method.front(), match.method.front().begin(), to_upper);
      return match;
  }
  return std::nullopt;
}

/// An ACL without its name: what it looks at, flags, values. `wide`: what it matches at most.
std::optional<Alternatives> alternatives_of(std::span<const std::string> words, WideReading* wide) {
  if (words.empty()) return std::nullopt;
  auto criterion = criterion_of(words.front());
  if (!criterion) return std::nullopt;
  bool ignores_case = words.front().find(',') != std::string::npos;
  words = words.subspan(1);
  while (!words.empty() && words.front().starts_with('-')) {
    const std::string& flag = words.front();
    words = words.subspan(1);
    if (flag == "--") break;
    ignores_case = ignores_case || flag == "-i";
    if (flag == "-i") continue;
    if (flag != "-m" || words.empty()) return std::nullopt;
    const std::string& way = words.front();
    if (way == "beg") criterion->way = Way::beginning;
    if (way == "end") criterion->way = Way::end;
    if (way != "beg" && way != "end" && way != "str") return std::nullopt;
    words = words.subspan(1);
  }
  // Of a field with a list, HAProxy compares each item; a route compares the whole.
  const bool is_narrow = criterion->is_narrow || criterion->field == Field::header;
  if (wide != nullptr && is_narrow) return std::nullopt;
  Alternatives found;
  for (const std::string& value : words) {
    auto match = match_of(*criterion, value);
    if (!match || found.size() == max_alternatives) return std::nullopt;
    const bool whole = criterion->way != Way::beginning || value.ends_with('/');
    if (wide != nullptr && criterion->field == Field::path && (!whole || ignores_case)) {
      wide->leaves_rest = true;
    }
    found.push_back(std::move(*match));
  }
  if (found.empty()) return std::nullopt;
  return found;
}

/// Both conditions in one; nothing if no request meets both, or one route cannot say them.
std::optional<RouteMatch> both(RouteMatch a, const RouteMatch& b) {
  const auto join = [](std::string& mine, const std::string& other) {
    if (mine.empty()) mine = other;
    return other.empty() || mine == other;
  };
  if (!join(a.host, b.host) || !join(a.path, b.path)) return std::nullopt;
  for (const auto& [name, value] : b.header) {
    if (a.header.try_emplace(name, value).first->second != value) return std::nullopt;
  }
  if (a.method.empty()) a.method = b.method;
  if (!b.method.empty() && a.method != b.method) return std::nullopt;
  return a;
}

std::optional<Alternatives> product(const Alternatives& a, const Alternatives& b) {
  Alternatives found;
  for (const RouteMatch& left : a) {
    for (const RouteMatch& right : b) {
      auto match = both(left, right);
      if (!match || found.size() == max_alternatives) return std::nullopt;
      found.push_back(std::move(*match));
    }
  }
  return found;
}

}  // namespace

RouteMatch both_or_first(const RouteMatch& a, const RouteMatch& b) {
  return both(a, b).value_or(a);
}

bool HaproxyConditions::add(std::string_view name, std::span<const std::string> criterion) {
  auto& lines = named_.try_emplace(std::string(name)).first->second;
  lines.emplace_back(criterion.begin(), criterion.end());
  return alternatives_of(criterion, nullptr).has_value();
}

/// Takes one term from `words`.
std::optional<Alternatives> HaproxyConditions::term(std::span<const std::string>& words,
                                                    WideReading* wide) const {
  std::string_view word = words.front();
  words = words.subspan(1);
  const bool negated = word.starts_with('!');
  if (negated) word.remove_prefix(1);
  if (negated && word.empty() && !words.empty()) {
    word = words.front();
    words = words.subspan(1);
  }
  if (word == "{") {
    const auto close = std::ranges::find(words, "}");
    const auto size = static_cast<std::size_t>(close - words.begin());
    const auto inner = words.first(size);
    words = words.subspan(std::min(size + 1, words.size()));
    return negated ? std::nullopt : alternatives_of(inner, wide);
  }
  if (negated) return std::nullopt;
  if (word == "TRUE") return Alternatives{{}};
  if (word.starts_with("METH_")) {
    auto match = match_of({.field = Field::method}, std::string(word.substr(5)));
    if (match && word == "METH_GET") match->method.emplace_back("HEAD");
    return match ? std::optional(Alternatives{*match}) : std::nullopt;
  }
  const auto known = named_.find(word);
  if (known == named_.end()) return std::nullopt;
  Alternatives all;
  for (const std::vector<std::string>& criterion : known->second) {
    const auto found = alternatives_of(criterion, wide);
    if (!found || all.size() + found->size() > max_alternatives) return std::nullopt;
    all.insert(all.end(), found->begin(), found->end());
  }
  return all;
}

std::optional<Alternatives> HaproxyConditions::read(std::span<const std::string> words) const {
  Alternatives all;
  Alternatives current{{}};
  bool expects_term = true;
  while (!words.empty()) {
    if (words.front() == "or" || words.front() == "||") {
      if (expects_term) return std::nullopt;
      all.insert(all.end(), current.begin(), current.end());
      current = {{}};
      expects_term = true;
      words = words.subspan(1);
      continue;
    }
    const auto next = term(words, nullptr);
    const auto joined = next ? product(current, *next) : std::nullopt;
    if (!joined || all.size() + joined->size() > max_alternatives) return std::nullopt;
    current = *joined;
    expects_term = false;
  }
  if (expects_term) return std::nullopt;
  all.insert(all.end(), current.begin(), current.end());
  return all;
}

WideReading HaproxyConditions::read_wide(std::span<const std::string> words) const {
  WideReading wide{.matches = {}};
  Alternatives current{{}};
  while (!words.empty()) {
    if (words.front() == "or" || words.front() == "||") {
      wide.matches.insert(wide.matches.end(), current.begin(), current.end());
      current = {{}};
      words = words.subspan(1);
      continue;
    }
    const auto next = term(words, &wide);
    const auto joined = next ? product(current, *next) : std::nullopt;
    if (joined) current = *joined;
    wide.is_said = wide.is_said && joined;
    if (wide.matches.size() + current.size() > max_alternatives) return {.is_said = false};
  }
  wide.matches.insert(wide.matches.end(), current.begin(), current.end());
  return wide;
}

}  // namespace evenkeel::import
