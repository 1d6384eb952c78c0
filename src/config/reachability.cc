#include "config/reachability.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "evenkeel/base/glob.h"
#include "evenkeel/base/regex.h"

namespace evenkeel::config_file {
namespace {

std::vector<std::string_view> segments_of(std::string_view path) {
  std::vector<std::string_view> segments;
  while (path.starts_with('/')) {
    path.remove_prefix(1);
    const std::size_t end = std::min(path.find('/'), path.size());
    segments.push_back(path.substr(0, end));
    path.remove_prefix(end);
  }
  return segments;
}

bool matches_every_path(std::string_view path) { return path.empty() || path == "/**"; }

}  // namespace

bool path_covers(const std::string& first, const std::string& second) {
  if (matches_every_path(first)) return true;
  if (second.empty()) return false;
  const auto a = segments_of(first);
  const auto b = segments_of(second);
  const auto is_rest = [](const auto& segments, std::size_t i) {
    return i < segments.size() && segments[i] == "**";
  };
  for (std::size_t i = 0;; ++i) {
    if (is_rest(a, i)) return true;
    if (is_rest(b, i)) return false;
    if (i == a.size() || i == b.size()) return a.size() == b.size();
    const bool same = a[i] == "*" ? !b[i].empty() : a[i] == b[i];  // "*" matches no empty segment
    if (!same) return false;
  }
}

namespace {

// True if all paths of the second match are of the first, as far as that is known of expressions.
bool regex_covers(const RouteMatch& first, const RouteMatch& second) {
  if (first.path_regex.empty() || first.path_regex == second.path_regex) return true;
  const bool is_one_path = !second.path.empty() && second.path.find('*') == std::string::npos;
  return is_one_path && Regex(first.path_regex).matches(second.path);
}

bool queries_cover(const std::map<std::string, std::string>& first,
                   const std::map<std::string, std::string>& second) {
  return std::ranges::all_of(first, [&](const auto& wanted) {
    const auto found = second.find(wanted.first);
    return found != second.end() && matches_glob(wanted.second, found->second);
  });
}

// True if each network of the second list lies in one of the first.
bool clients_cover(const std::vector<Network>& first, const std::vector<Network>& second) {
  if (first.empty()) return true;
  const auto is_covered = [&](const Network& network) {
    return std::ranges::any_of(first, [&](const Network& each) {
      return each.prefix_bits <= network.prefix_bits && each.contains(network.first);
    });
  };
  return !second.empty() && std::ranges::all_of(second, is_covered);
}

bool listeners_cover(const std::vector<std::string>& first,
                     const std::vector<std::string>& second) {
  if (first.empty()) return true;
  return !second.empty() && std::ranges::all_of(second, [&](const std::string& name) {
    return std::ranges::find(first, name) != first.end();
  });
}

// True if the second match excludes what the first one does, in the same words.
bool exclusions_cover(const RouteMatch& first, const RouteMatch& second) {
  return std::ranges::all_of(first.none_of, [&](const RouteMatch& each) {
    return std::ranges::any_of(second.none_of,
                               [&](const RouteMatch& other) { return covers(other, each); });
  });
}

bool host_covers(const std::string& first, const std::string& second) {
  if (first.empty() || first == second) return true;
  return first.starts_with("*.") && second.size() > first.size() - 1 &&
         second.ends_with(first.substr(1));
}

// True if each call in `second` is matched by `first`.
bool calls_cover(const std::vector<std::string>& first, const std::vector<std::string>& second) {
  if (first.empty()) return true;
  const auto is_covered = [&](std::string_view call) {
    return std::ranges::any_of(first, [&](const std::string& each) {
      return call == each || (call.starts_with(each) && call.substr(each.size()).starts_with('/'));
    });
  };
  return !second.empty() && std::ranges::all_of(second, is_covered);
}

// True if each model in `second` is matched by `first`. A glob stands for itself there: what
// matches its text matches all that it does.
bool models_cover(const std::vector<std::string>& first, const std::vector<std::string>& second) {
  if (first.empty()) return true;
  if (second.empty()) return false;
  const auto matches_any = [](const auto& globs, std::string_view model) {
    return std::ranges::any_of(globs, [&](const auto& glob) { return matches_glob(glob, model); });
  };
  if (!matches_any(first, second.front())) return false;
  std::unordered_set<std::string> names;
  std::vector<std::string_view> globs;
  for (const std::string& each : first) {
    if (is_glob(each)) {
      globs.push_back(each);
    } else {
      names.insert(text_of_glob(each));
    }
  }
  return std::ranges::all_of(second, [&](const std::string& model) {
    return names.contains(model) || matches_any(globs, model);
  });
}

// What all texts begin with that match the glob; of a name, all of it.
std::string text_before_star(std::string_view glob) {
  std::string text;
  for (std::size_t at = 0; at < glob.size() && glob[at] != '*'; ++at) {
    const bool escapes =
        glob[at] == '\\' && at + 1 < glob.size() && (glob[at + 1] == '*' || glob[at + 1] == '\\');
    text += glob[escapes ? ++at : at];
  }
  return text;
}

using Keys = std::vector<std::string>;

std::string field_key(const std::pair<const std::string, std::string>& field) {
  return "field " + field.first + ' ' + field.second;
}

std::string segment_key(std::size_t index, std::string_view segment) {
  return fmt::format("segment {} {}", index, segment);
}

// What the match asks for, as lists of which each would do to find it: any match that it covers has
// one of the keys of the list among its `keys_of_covers`.
std::vector<Keys> keys_of(const RouteMatch& match) {
  std::vector<Keys> lists{{""}};
  if (!match.host.empty()) lists.push_back({"host " + match.host});
  const auto add_each = [&](std::string_view what, const std::vector<std::string>& values) {
    if (values.empty()) return;
    Keys& keys = lists.emplace_back();
    for (const std::string& value : values) keys.push_back(fmt::format("{} {}", what, value));
  };
  add_each("method", match.method);
  add_each("call", match.grpc);
  for (const auto& field : match.header) lists.push_back({field_key(field)});
  std::size_t index = 0;
  for (const std::string_view segment : segments_of(match.path)) {
    if (segment == "**") break;
    if (segment != "*") lists.push_back({segment_key(index, segment)});
    ++index;
  }
  if (!match.model.empty()) {
    Keys& keys = lists.emplace_back();
    for (const std::string& model : match.model)
      keys.push_back((is_glob(model) ? "models " : "model ") + text_before_star(model));
  }
  return lists;
}

// Has at least one key of each list of `keys_of`, of every match that covers this one.
Keys keys_of_covers(const RouteMatch& match) {
  Keys keys{"", "host " + match.host};
  for (std::size_t dot = match.host.find('.', 1); dot != match.host.npos;
       dot = match.host.find('.', dot + 1)) {
    keys.push_back("host *" + match.host.substr(dot));
  }
  if (!match.method.empty()) keys.push_back("method " + match.method.front());
  if (!match.grpc.empty()) {
    const std::string& call = match.grpc.front();
    keys.push_back("call " + call);
    keys.push_back("call " + call.substr(0, call.find('/')));
  }
  for (const auto& field : match.header) keys.push_back(field_key(field));
  std::size_t index = 0;
  for (const std::string_view segment : segments_of(match.path))
    keys.push_back(segment_key(index++, segment));
  if (!match.model.empty()) {
    const std::string& model = match.model.front();
    keys.push_back("model " + text_before_star(model));
    for (std::size_t size = 0; size <= model.size(); ++size)
      keys.push_back("models " + model.substr(0, size));
  }
  return keys;
}

}  // namespace

bool covers(const RouteMatch& first, const RouteMatch& second) {
  // What looks into bodies matches not all requests that look alike from outside.
  if (first.looks_into_body() &&
      !(models_cover(first.model, second.model) && first.task == second.task &&
        first.prompt_tokens == second.prompt_tokens && first.max_tokens == second.max_tokens)) {
    return false;
  }
  const bool headers_cover = std::ranges::all_of(first.header, [&](const auto& field) {
    const auto found = second.header.find(field.first);
    return found != second.header.end() && found->second == field.second;
  });
  const bool methods_cover =
      first.method.empty() ||
      (!second.method.empty() && std::ranges::all_of(second.method, [&](const std::string& method) {
        return std::ranges::find(first.method, method) != first.method.end();
      }));
  return headers_cover && methods_cover && host_covers(first.host, second.host) &&
         path_covers(first.path, second.path) && calls_cover(first.grpc, second.grpc) &&
         regex_covers(first, second) && queries_cover(first.query, second.query) &&
         clients_cover(first.client, second.client) &&
         listeners_cover(first.listener, second.listener) && exclusions_cover(first, second);
}

void CoverIndex::add(std::size_t route, const RouteMatch& match) {
  const auto routes_under = [this](const Keys& keys) {
    std::size_t most = 0;
    for (const std::string& key : keys) {
      const auto found = routes_.find(key);
      if (found != routes_.end()) most = std::max(most, found->second.size());
    }
    return most;
  };
  const std::vector<Keys> lists = keys_of(match);
  for (const std::string& key : *std::ranges::min_element(lists, {}, routes_under)) {
    std::vector<Entry>& entries = routes_[key];
    if (entries.empty() || entries.back().route != route) entries.push_back({route, &match});
  }
}

std::optional<std::size_t> CoverIndex::first_cover(const RouteMatch& match) {
  std::optional<std::size_t> first;
  for (const std::string& key : keys_of_covers(match)) {
    const auto found = routes_.find(key);
    if (found == routes_.end()) continue;
    for (const Entry& entry : found->second) {
      if (first && *first <= entry.route) break;  // they are in the order of the file
      const std::size_t cost = 1 + entry.match->model.size() * match.model.size();
      if (cost > comparisons_left_) return first;
      comparisons_left_ -= cost;
      if (covers(*entry.match, match)) first = entry.route;
    }
  }
  return first;
}

}  // namespace evenkeel::config_file
