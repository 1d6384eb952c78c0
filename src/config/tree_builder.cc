#include "config/tree_builder.h"

#include <fmt/format.h>
#include <yaml-cpp/exceptions.h>

#include <algorithm>

#include "config/text.h"

namespace evenkeel::config_file {
bool has_closing_quote(std::string_view text, std::size_t start) {
  if (start >= text.size()) return true;
  const char quote = text[start];
  if (quote != '"' && quote != '\'') return true;  // after a tag or anchor, reported anyway
  for (std::size_t i = start + 1; i < text.size(); ++i) {
    if (quote == '"' && text[i] == '\\') {
      ++i;
    } else if (text[i] == quote) {
      return true;
    }
  }
  return false;
}

const Mark* TreeBuilder::open_flow() const {
  for (const auto& frame : frames_) {
    if (frame.is_flow) return &frame.tree.mark;
  }
  return nullptr;
}

void TreeBuilder::close_unterminated() {
  if (last_scalar_ && !frames_.empty()) {
    auto& items = frames_.back().tree.items;
    if (!items.empty()) items.back().broken = true;
  }
  while (!frames_.empty()) {
    frames_.back().tree.broken = true;
    if (frames_.back().key) {
      Tree nothing;
      nothing.broken = true;
      attach(std::move(nothing));
    }
    close();
  }
}

void TreeBuilder::report_unused_anchors() {
  for (const auto& [anchor, mark] : anchors_) {
    if (aliased_.count(anchor) == 0) report_.add(mark, {}, "anchors are not supported");
  }
}

void TreeBuilder::OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) {
  record_anchor(mark, anchor);
  Tree tree;
  tree.mark = lines_.mark_of(mark);
  last_scalar_ = true;
  attach(std::move(tree));
}

void TreeBuilder::OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) {
  aliased_.insert(anchor);
  Tree tree;
  tree.mark = lines_.mark_of(mark);
  tree.broken = true;
  const bool merges = !frames_.empty() && frames_.back().key && frames_.back().key->name == "<<";
  if (!merges) {
    report_.add(tree.mark, path(), "aliases are not supported", "write the value out");
  }
  attach(std::move(tree));
}

void TreeBuilder::OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                           const std::string& value) {
  record_anchor(mark, anchor);
  Tree tree = tag == "!" ? Tree::text(value) : Tree::raw(value);
  tree.mark = lines_.mark_of(mark);
  tree.broken = !check_tag(tree.mark, tag);
  if (tag == "!" && !has_closing_quote(text_, static_cast<std::size_t>(mark.pos))) {
    throw YAML::ParserException(mark, unclosed_quote);
  }
  if (value.find(patch) != value.npos) {
    tree.broken = true;
    report_patches(static_cast<std::size_t>(mark.pos), value);
  }
  last_scalar_ = true;
  attach(std::move(tree));
}

void TreeBuilder::OnSequenceStart(const YAML::Mark& mark, const std::string& tag,
                                  YAML::anchor_t anchor, YAML::EmitterStyle::value style) {
  open(Tree::list(), mark, tag, anchor, style);
}

void TreeBuilder::OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                             YAML::EmitterStyle::value style) {
  open(Tree::map(), mark, tag, anchor, style);
}

void TreeBuilder::report_patches(std::size_t start, const std::string& value) {
  auto patched = patches_.lower_bound(start);
  for (auto left = std::count(value.begin(), value.end(), patch);
       left > 0 && patched != patches_.end(); --left, ++patched) {
    const Explanation& wrong = patched->second;
    report_.add(wrong.mark, path(), wrong.message, wrong.help);
    if (wrong.loses_keys && !frames_.empty()) frames_.back().tree.broken = true;
  }
}

void TreeBuilder::record_anchor(const YAML::Mark& mark, YAML::anchor_t anchor) {
  last_position_ = static_cast<std::size_t>(std::max(mark.pos, 0));
  if (++values_ > max_values) throw YAML::ParserException(mark, too_many_values);
  if (anchor != 0) anchors_.emplace_back(anchor, lines_.mark_of(mark));
}

bool TreeBuilder::check_tag(Mark mark, const std::string& tag) {
  if (tag.empty() || tag == "?" || tag == "!") return true;
  report_.add(mark, path(), fmt::format("tags such as '{}' are not supported", tag));
  return false;
}

void TreeBuilder::open(Tree tree, const YAML::Mark& mark, const std::string& tag,
                       YAML::anchor_t anchor, YAML::EmitterStyle::value style) {
  if (frames_.size() >= max_depth) {
    throw YAML::ParserException(mark, YAML::ErrorMsg::BAD_FILE);  // as yaml-cpp does at 500
  }
  record_anchor(mark, anchor);
  tree.mark = lines_.mark_of(mark);
  tree.broken = !check_tag(tree.mark, tag);
  last_scalar_ = false;
  Frame frame;
  frame.path = path();
  frame.tree = std::move(tree);
  frame.is_flow = style == YAML::EmitterStyle::Flow;
  frames_.push_back(std::move(frame));
}

void TreeBuilder::close() {
  Tree done = std::move(frames_.back().tree);
  frames_.pop_back();
  last_scalar_ = false;
  attach(std::move(done));
}

std::string TreeBuilder::path() const {
  if (frames_.empty()) return {};
  const Frame& frame = frames_.back();
  if (frame.tree.kind == Tree::Kind::list) {
    return fmt::format("{}[{}]", frame.path, frame.tree.items.size());
  }
  return frame.key ? join(frame.path, frame.key->name) : frame.path;
}

void TreeBuilder::attach(Tree value) {
  if (frames_.empty()) {
    root_ = std::move(value);
    return;
  }
  Frame& frame = frames_.back();
  if (frame.tree.kind == Tree::Kind::list) {
    frame.tree.items.push_back(std::move(value));
  } else if (!frame.key) {
    attach_key(frame, std::move(value));
  } else {
    // yaml-cpp places an empty value where the next item begins; the key is the useful place.
    if (value.kind == Tree::Kind::nothing) value.mark = frame.key->mark;
    if (!frame.key_discarded) {
      frame.tree.keys.push_back(std::move(*frame.key));
      frame.tree.items.push_back(std::move(value));
    }
    frame.key.reset();
  }
}

void TreeBuilder::attach_key(Frame& frame, Tree value) {
  last_scalar_ = false;
  frame.key = Tree::Key{std::move(value.scalar), value.mark};
  frame.key_discarded = false;
  const std::string& name = frame.key->name;
  if (value.broken) {
    frame.key_discarded = true;
    frame.tree.broken = true;
  } else if (!value.is_scalar()) {
    report_.add(value.mark, frame.path, "a key must be a word",
                value.kind == Tree::Kind::list ? "a text that starts with '[' needs quotes" : "");
    frame.key_discarded = true;
    frame.tree.broken = true;
  } else if (name == "<<" && value.kind == Tree::Kind::plain) {
    report_.add(value.mark, join(frame.path, name), "merge keys are not supported",
                "write the keys out");
    frame.key_discarded = true;
  } else if (const auto [first, is_new] = frame.seen.emplace(name, value.mark.line); !is_new) {
    report_.add(value.mark, join(frame.path, name),
                fmt::format("duplicate key; the first is in line {}", first->second));
    frame.key_discarded = true;
  }
}

}  // namespace evenkeel::config_file
