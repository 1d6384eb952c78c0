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
};

/// "hdr_end(host)" and its like.
std::optional<Criterion> criterion_of(std::string_view word) {
  word = word.substr(0, word.find(','));  // converters such as `lower`
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
    return found;
  }
  if (way == "beg" || way == "dir") found.way = Way::beginning;
  if (way == "end" || way == "dom") found.way = Way::end;
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

/// An ACL without its name: what it looks at, flags, values.
std::optional<Alternatives> alternatives_of(std::span<const std::string> words) {
  if (words.empty()) return std::nullopt;
  auto criterion = criterion_of(words.front());
  if (!criterion) return std::nullopt;
  words = words.subspan(1);
  while (!words.empty() && words.front().starts_with('-')) {
    const std::string& flag = words.front();
    words = words.subspan(1);
    if (flag == "--") break;
    if (flag == "-i") continue;
    if (flag != "-m" || words.empty()) return std::nullopt;
    const std::string& way = words.front();
    if (way == "beg") criterion->way = Way::beginning;
    if (way == "end") criterion->way = Way::end;
    if (way != "beg" && way != "end" && way != "str") return std::nullopt;
    words = words.subspan(1);
  }
  Alternatives found;
  for (const std::string& value : words) {
    auto match = match_of(*criterion, value);
    if (!match || found.size() == max_alternatives) return std::nullopt;
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

bool HaproxyConditions::add(std::string_view name, std::span<const std::string> criterion) {
  const auto read = alternatives_of(criterion);
  const auto [entry, is_new] = named_.try_emplace(std::string(name), read);
  if (is_new) return read.has_value();
  auto& known = entry->second;
  if (!known || !read || known->size() + read->size() > max_alternatives) {
    known.reset();
    return false;
  }
  known->insert(known->end(), read->begin(), read->end());
  return true;
}

std::optional<Alternatives> HaproxyConditions::term(std::span<const std::string>& words) const {
  const std::string& word = words.front();
  words = words.subspan(1);
  if (word == "{") {
    const auto close = std::ranges::find(words, "}");
    const auto size = static_cast<std::size_t>(close - words.begin());
    if (close == words.end()) return std::nullopt;
    const auto inner = words.first(size);
    words = words.subspan(size + 1);
    return alternatives_of(inner);
  }
  if (word == "TRUE") return Alternatives{{}};
  if (word.starts_with("METH_")) {
    const auto match = match_of({.field = Field::method}, word.substr(5));
    return match ? std::optional(Alternatives{*match}) : std::nullopt;
  }
  const auto known = named_.find(word);
  return known == named_.end() ? std::nullopt : known->second;
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
    const auto next = term(words);
    const auto joined = next ? product(current, *next) : std::nullopt;
    if (!joined || all.size() + joined->size() > max_alternatives) return std::nullopt;
    current = *joined;
    expects_term = false;
  }
  if (expects_term) return std::nullopt;
  all.insert(all.end(), current.begin(), current.end());
  return all;
}

}  // namespace evenkeel::import
