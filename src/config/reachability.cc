#include "config/reachability.h"

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "evenkeel/base/glob.h"

namespace evenkeel::config_file {
namespace {

// A separator that no part of a key contains.
constexpr char separator = '\n';

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

// The patterns that can cover this one: any host, itself, and the wildcards above it.
std::vector<std::string> covering_hosts(const std::string& host) {
  std::vector<std::string> hosts{""};
  if (host.empty()) return hosts;
  hosts.push_back(host);
  for (std::size_t dot = host.find('.', 1); dot != host.npos; dot = host.find('.', dot + 1)) {
    if (std::string above = "*" + host.substr(dot); above != host)
      hosts.push_back(std::move(above));
  }
  return hosts;
}

// What can match the first of these calls: every call, that one, and its service.
std::vector<std::string_view> covering_calls(const std::vector<std::string>& calls) {
  if (calls.empty()) return {""};
  const std::string_view call = calls.front();
  const std::size_t slash = call.find('/');
  if (slash == call.npos) return {"", call};
  return {"", call, call.substr(0, slash)};
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

std::string place_key(std::string_view host, std::string_view call) {
  return std::string(host) + separator + std::string(call);
}

std::vector<std::string> field_keys(const std::map<std::string, std::string>& fields) {
  std::vector<std::string> keys;
  keys.reserve(fields.size());
  for (const auto& [name, value] : fields) {
    std::string& key = keys.emplace_back(name);
    key += separator;
    key += value;
  }
  std::ranges::sort(keys);
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
         path_covers(first.path, second.path) && calls_cover(first.grpc, second.grpc);
}

// One search for the first cover of a match.
class RouteIndex::Search {
 public:
  Search(const RouteMatch& match, std::size_t& comparisons_left)
      : match_(match), fields_(field_keys(match.header)), comparisons_left_(comparisons_left) {
    for (const std::string& host : covering_hosts(match.host)) {
      for (const std::string_view call : covering_calls(match.grpc)) {
        places_.push_back(place_key(host, call));
      }
    }
  }

  void visit(const ByHostAndCall& routes) {
    if (routes.empty()) return;
    for (const std::string& place : places_) {
      if (const auto found = routes.find(place); found != routes.end()) visit_fields(found->second);
    }
  }

  std::optional<std::size_t> first() const { return first_; }

 private:
  // The routes whose fields are all among those of the match.
  void visit_fields(const FieldNode* root) {
    struct Step {
      const FieldNode* node;
      std::size_t next;  // of `fields_`: the first that can follow
    };
    std::vector<Step> steps{{root, 0}};
    while (!steps.empty()) {
      const auto [node, next] = steps.back();
      steps.pop_back();
      visit(node->entries);
      visit_model(*node);
      if (node->children.size() < fields_.size() - next) {
        for (const auto& [field, child] : node->children) {
          const auto from = fields_.begin() + static_cast<std::ptrdiff_t>(next);
          const auto at = std::lower_bound(from, fields_.end(), field);
          if (at == fields_.end() || *at != field) continue;
          steps.push_back({child, static_cast<std::size_t>(at - fields_.begin()) + 1});
        }
        continue;
      }
      for (std::size_t i = next; i < fields_.size(); ++i) {
        const auto child = node->children.find(fields_[i]);
        if (child != node->children.end()) steps.push_back({child->second, i + 1});
      }
    }
  }

  void visit_model(const FieldNode& node) {
    if (match_.model.empty()) return;
    const std::string& model = match_.model.front();
    if (const auto found = node.by_model.find(model); found != node.by_model.end())
      visit(found->second);
    if (node.by_model_prefix.empty()) return;
    for (std::size_t size = 0; size <= model.size(); ++size) {
      const auto found = node.by_model_prefix.find(model.substr(0, size));
      if (found != node.by_model_prefix.end()) visit(found->second);
    }
  }

  void visit(const std::vector<Entry>& entries) {
    for (const Entry& entry : entries) {
      if (first_ && *first_ <= entry.route) return;  // they are in the order of the file
      const std::size_t cost = entry.match->model.size() * match_.model.size();
      if (cost > comparisons_left_) return;
      comparisons_left_ -= cost;
      if (covers(*entry.match, match_)) first_ = entry.route;
    }
  }

  const RouteMatch& match_;
  std::vector<std::string> fields_;
  std::vector<std::string> places_;
  std::size_t& comparisons_left_;
  std::optional<std::size_t> first_;
};

void RouteIndex::add(std::size_t route, const RouteMatch& match) {
  PathNode* node = &nodes_.front();
  bool open_ended = matches_every_path(match.path);
  if (!open_ended) {
    for (const std::string_view segment : segments_of(match.path)) {
      open_ended = segment == "**";
      if (open_ended) break;
      PathNode*& child = node->children[segment];
      if (child == nullptr) child = &nodes_.emplace_back();
      node = child;
    }
  }
  ByHostAndCall& routes = open_ended ? node->below : node->here;
  const std::vector<std::string> fields = field_keys(match.header);
  const auto add_at = [&](std::string_view call) {
    FieldNode** at = &routes[place_key(match.host, call)];
    for (std::size_t i = 0;; ++i) {
      if (*at == nullptr) *at = &field_nodes_.emplace_back();
      if (i == fields.size()) break;
      at = &(*at)->children[fields[i]];
    }
    if (match.model.empty()) return (*at)->entries.push_back({route, &match});
    for (const std::string& model : match.model) {
      auto& by_text = is_glob(model) ? (*at)->by_model_prefix : (*at)->by_model;
      std::vector<Entry>& entries = by_text[text_before_star(model)];
      if (entries.empty() || entries.back().route != route) entries.push_back({route, &match});
    }
  };
  if (match.grpc.empty()) add_at("");
  for (const std::string& call : match.grpc) add_at(call);
}

std::optional<std::size_t> RouteIndex::first_cover(const RouteMatch& match) {
  Search search(match, comparisons_left_);
  std::vector<const PathNode*> level{&nodes_.front()};
  search.visit(nodes_.front().below);
  if (match.path.empty()) return search.first();
  for (const std::string_view segment : segments_of(match.path)) {
    if (segment == "**") return search.first();
    std::vector<const PathNode*> next;
    for (const PathNode* node : level) {
      const auto enter = [&](std::string_view key) {
        const auto child = node->children.find(key);
        if (child != node->children.end()) next.push_back(child->second);
      };
      enter(segment);
      if (segment != "*" && !segment.empty()) enter("*");
    }
    for (const PathNode* node : next) search.visit(node->below);
    level = std::move(next);
    if (level.empty()) break;
  }
  for (const PathNode* node : level) search.visit(node->here);
  return search.first();
}

}  // namespace evenkeel::config_file
