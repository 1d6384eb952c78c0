#include "config/yaml.h"

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <unordered_set>
#include <vector>

namespace evenkeel::config_file {
namespace {

// No meaningful file nests deeper; yaml-cpp itself fails at 500.
constexpr std::size_t max_depth = 64;

// Replaces a character that YAML does not allow where it is, so that parsing can continue. It
// occurs in no text.
constexpr char patch = '\x01';
constexpr std::size_t max_patches = 20;
constexpr std::size_t max_patched_bytes = 1024UL * 1024;  // each patch reads the text once more
constexpr const char* unclosed_quote = "a quoted text that never ends";

// yaml-cpp counts columns in bytes from 0; editors count characters from 1.
class Lines {
 public:
  explicit Lines(std::string_view text) : lines_(split_lines(text)) {}

  Mark mark_of(const YAML::Mark& mark) const {
    if (mark.line < 0) return {};
    const std::string_view before =
        at(mark.line + 1)
            .substr(0, std::min(static_cast<std::size_t>(mark.column), at(mark.line + 1).size()));
    const auto characters = std::count_if(before.begin(), before.end(), [](char c) {
      return (static_cast<unsigned char>(c) & 0xc0) != 0x80;
    });
    const auto past_the_end = static_cast<std::size_t>(mark.column) - before.size();
    return {mark.line + 1, static_cast<int>(characters) + static_cast<int>(past_the_end) + 1};
  }

  // The line with this number, counted from 1; empty past the end.
  std::string_view at(int number) const {
    const auto index = static_cast<std::size_t>(number - 1);
    return number >= 1 && index < lines_.size() ? lines_[index] : std::string_view{};
  }

  // The place of a byte of the text, which must be the whole of these lines.
  Mark mark_of(std::string_view text, std::size_t offset) const {
    const std::string_view before = text.substr(0, offset);
    YAML::Mark mark;
    mark.line = static_cast<int>(std::count(before.begin(), before.end(), '\n'));
    mark.column = static_cast<int>(offset - (before.rfind('\n') + 1));
    return mark_of(mark);
  }

  Mark last() const { return {std::max(static_cast<int>(lines_.size()), 1), 1}; }

 private:
  std::vector<std::string_view> lines_;
};

// Where the closing quote is missing, yaml-cpp ends the text at the end of the file.
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

struct Explanation {
  Mark mark;
  std::string message;
  std::string help;
  bool loses_keys = false;  // the patched text may have swallowed keys
};

// One for each patch, in the order of the text.
using Explanations = std::map<std::size_t, Explanation>;

class TreeBuilder : public YAML::EventHandler {
 public:
  TreeBuilder(std::string_view text, const Lines& lines, const Explanations& patches,
              Report& report)
      : text_(text), lines_(lines), patches_(patches), report_(report) {}

  Tree take_root() { return std::move(root_); }

  // The outermost open [ or {, where a syntax error leaves one open.
  const Mark* open_flow() const {
    for (const auto& frame : frames_) {
      if (frame.is_flow) return &frame.tree.mark;
    }
    return nullptr;
  }

  // The innermost.
  const Tree* innermost() const { return frames_.empty() ? nullptr : &frames_.back().tree; }

  // Where in the text the last thing that was read began.
  std::size_t last_position() const { return last_position_; }

  // Closes what a syntax error left open. The last scalar may contain part of the mistake.
  void close_unterminated() {
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

  // Names anchors that no alias uses; those that are used were reported where they are.
  void report_unused_anchors() {
    for (const auto& [anchor, mark] : anchors_) {
      if (aliased_.count(anchor) == 0) report_.add(mark, {}, "anchors are not supported");
    }
  }

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    record_anchor(mark, anchor);
    Tree tree;
    tree.mark = lines_.mark_of(mark);
    last_scalar_ = true;
    attach(std::move(tree));
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
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

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
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

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value style) override {
    open(Tree::list(), mark, tag, anchor, style);
  }
  void OnSequenceEnd() override { close(); }

  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value style) override {
    open(Tree::map(), mark, tag, anchor, style);
  }
  void OnMapEnd() override { close(); }

 private:
  struct Frame {
    Tree tree;
    std::string path;
    std::optional<Tree::Key> key;          // of a map, while its value is awaited
    bool key_discarded = false;            // a duplicate or no key at all: its value is dropped
    std::unordered_set<std::string> seen;  // of a map
    bool is_flow = false;
  };

  void report_patches(std::size_t start, const std::string& value) {
    auto patched = patches_.lower_bound(start);
    for (auto left = std::count(value.begin(), value.end(), patch);
         left > 0 && patched != patches_.end(); --left, ++patched) {
      const Explanation& wrong = patched->second;
      report_.add(wrong.mark, path(), wrong.message, wrong.help);
      if (wrong.loses_keys && !frames_.empty()) frames_.back().tree.broken = true;
    }
  }

  void record_anchor(const YAML::Mark& mark, YAML::anchor_t anchor) {
    last_position_ = static_cast<std::size_t>(std::max(mark.pos, 0));
    if (anchor != 0) anchors_.emplace_back(anchor, lines_.mark_of(mark));
  }

  bool check_tag(Mark mark, const std::string& tag) {
    if (tag.empty() || tag == "?" || tag == "!") return true;
    report_.add(mark, path(), fmt::format("tags such as '{}' are not supported", tag));
    return false;
  }

  void open(Tree tree, const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
            YAML::EmitterStyle::value style) {
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

  void close() {
    Tree done = std::move(frames_.back().tree);
    frames_.pop_back();
    last_scalar_ = false;
    attach(std::move(done));
  }

  // Of the value that comes next.
  std::string path() const {
    if (frames_.empty()) return {};
    const Frame& frame = frames_.back();
    if (frame.tree.kind == Tree::Kind::list) {
      return fmt::format("{}[{}]", frame.path, frame.tree.items.size());
    }
    return frame.key ? join(frame.path, frame.key->name) : frame.path;
  }

  static std::string join(const std::string& path, const std::string& key) {
    return path.empty() ? key : path + "." + key;
  }

  void attach(Tree value) {
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

  void attach_key(Frame& frame, Tree value) {
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
    } else if (!frame.seen.insert(name).second) {
      const auto first = std::ranges::find_if(
          frame.tree.keys, [&](const Tree::Key& key) { return key.name == name; });
      report_.add(value.mark, join(frame.path, name),
                  first == frame.tree.keys.end()
                      ? std::string{"duplicate key"}
                      : fmt::format("duplicate key; the first is in line {}", first->mark.line));
      frame.key_discarded = true;
    }
  }

  std::string_view text_;
  const Lines& lines_;
  const Explanations& patches_;
  Report& report_;
  Tree root_;
  std::vector<Frame> frames_;
  std::vector<std::pair<YAML::anchor_t, Mark>> anchors_;
  std::set<YAML::anchor_t> aliased_;
  std::size_t last_position_ = 0;
  bool last_scalar_ = false;
};

// Finds what follows the first document.
class SecondDocumentDetector : public YAML::EventHandler {
 public:
  std::optional<YAML::Mark> found;

  void OnDocumentStart(const YAML::Mark& mark) override { found = mark; }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark&, YAML::anchor_t) override {}
  void OnAlias(const YAML::Mark&, YAML::anchor_t) override {}
  void OnScalar(const YAML::Mark&, const std::string&, YAML::anchor_t,
                const std::string&) override {}
  void OnSequenceStart(const YAML::Mark&, const std::string&, YAML::anchor_t,
                       YAML::EmitterStyle::value) override {}
  void OnSequenceEnd() override {}
  void OnMapStart(const YAML::Mark&, const std::string&, YAML::anchor_t,
                  YAML::EmitterStyle::value) override {}
  void OnMapEnd() override {}
};

std::string_view indentation_of(std::string_view line) {
  return line.substr(0, std::min(line.find_first_not_of(" \t"), line.size()));
}

// yaml-cpp reports what its grammar expected; this says what to change in the file.
Explanation explain(const YAML::Exception& error, const TreeBuilder& builder, const Lines& lines,
                    std::string_view text) {
  Mark mark = lines.mark_of(error.mark);
  if (mark.line == 0) mark = lines.last();
  const std::string_view line = lines.at(mark.line);
  const Tree* innermost = builder.innermost();

  if (error.msg == YAML::ErrorMsg::BAD_FILE) {
    return {mark, fmt::format("nested more than {} levels deep", max_depth), {}};
  }
  if (indentation_of(line).find('\t') != std::string_view::npos) {
    return {mark, "a tab in the indentation", "YAML indents with spaces"};
  }
  if (error.msg == YAML::ErrorMsg::UNKNOWN_ANCHOR) {
    return {mark, "aliases are not supported", "write the value out"};
  }
  if (line.find("]:") != std::string_view::npos) {
    return {mark, "not YAML: an IPv6 address without quotes", "write \"[::1]:8080\""};
  }
  if (line.find("${") != std::string_view::npos && builder.open_flow() != nullptr) {
    return {mark, "not YAML: ${...} without quotes inside [ ] or { }", "put it in double quotes"};
  }
  const bool flow_ends_missing =
      error.msg == YAML::ErrorMsg::END_OF_SEQ_FLOW || error.msg == YAML::ErrorMsg::END_OF_MAP_FLOW;
  if (flow_ends_missing && innermost != nullptr) {
    const bool is_list = innermost->kind == Tree::Kind::list;
    return {innermost->mark,
            fmt::format("this '{}' has no '{}'", is_list ? '[' : '{', is_list ? ']' : '}'),
            fmt::format("it was missed in line {}", mark.line)};
  }
  if (error.msg == YAML::ErrorMsg::END_OF_MAP || error.msg == YAML::ErrorMsg::END_OF_SEQ) {
    return {mark, "not YAML: this does not continue what is above it",
            "check the indentation and the '- ' of lists"};
  }
  if (error.msg == YAML::ErrorMsg::MAP_VALUE) {
    return {mark, "not YAML: a ':' where no key can be",
            "check the indentation, or put a text that contains ': ' in quotes"};
  }
  if (error.msg == YAML::ErrorMsg::UNKNOWN_TOKEN) {
    return {mark, "not YAML: a text cannot start with this character", "put it in quotes"};
  }
  if (error.msg == unclosed_quote) return {mark, error.msg, {}};
  if (error.msg == YAML::ErrorMsg::EOF_IN_SCALAR || error.msg == YAML::ErrorMsg::DOC_IN_SCALAR) {
    for (std::size_t i = builder.last_position(); i < text.size(); ++i) {
      if (!has_closing_quote(text, i)) return {lines.mark_of(text, i), unclosed_quote, {}};
    }
  }
  if (error.msg == YAML::ErrorMsg::FLOW_END) {
    return {mark, "not YAML: this bracket does not belong to one before it",
            innermost ? fmt::format("check those from line {} on", innermost->mark.line) : ""};
  }
  return {mark, "not YAML: " + error.msg, {}};
}

void report_second_document(const YAML::Mark& at, const Lines& lines, Report& report) {
  const Mark mark = lines.mark_of(at);
  if (lines.at(mark.line).starts_with("---")) {
    report.add(mark, {}, "a second document", "a file holds one; remove the '---'");
  } else {
    report.add(mark, {}, "text after the end of the document", "check the indentation");
  }
}

// Whether the mistake is in one scalar, which reads on once the character is another one.
bool can_be_patched(const YAML::Exception& error, const std::string& text) {
  const bool in_a_scalar = error.msg == YAML::ErrorMsg::UNKNOWN_ANCHOR ||
                           error.msg == YAML::ErrorMsg::UNKNOWN_TOKEN ||
                           error.msg == YAML::ErrorMsg::MAP_VALUE;
  if (!in_a_scalar || error.mark.pos < 0) return false;
  const auto position = static_cast<std::size_t>(error.mark.pos);
  return position < text.size() && text[position] != patch && text[position] != '\n';
}

void read_second_document(YAML::Parser& parser, const Lines& lines, Report& report) {
  SecondDocumentDetector rest;
  bool more = true;
  try {
    more = parser.HandleNextDocument(rest);
  } catch (const YAML::Exception& error) {
    if (!rest.found) rest.found = error.mark;
  }
  if (more && rest.found) report_second_document(*rest.found, lines, report);
}

}  // namespace

ParsedYaml parse_yaml(std::string_view original, Report& report) {
  const Lines lines{original};
  const Report before = report;
  std::string text{original};
  Explanations patches;
  for (;;) {
    report = before;
    ParsedYaml parsed;
    TreeBuilder builder{text, lines, patches, report};
    std::istringstream stream{text};
    try {
      YAML::Parser parser{stream};
      parser.HandleNextDocument(builder);
      builder.report_unused_anchors();
      read_second_document(parser, lines, report);
    } catch (const YAML::Exception& error) {
      Explanation found = explain(error, builder, lines, text);
      const bool may_patch = patches.size() < max_patches && text.size() <= max_patched_bytes;
      if (may_patch && can_be_patched(error, text)) {
        const auto position = static_cast<std::size_t>(error.mark.pos);
        text[position] = patch;
        found.loses_keys = error.msg == YAML::ErrorMsg::MAP_VALUE;
        patches.emplace(position, std::move(found));
        continue;
      }
      int from = found.mark.line;
      if (const Mark* open = builder.open_flow()) from = std::min(from, open->line);
      parsed.syntax_error = {found.mark, std::move(found.message), std::move(found.help), from};
      builder.close_unterminated();
    }
    parsed.root = builder.take_root();
    if (parsed.root.kind == Tree::Kind::nothing) parsed.root.mark = {1, 1};
    parsed.structure_unreliable =
        std::ranges::any_of(patches, [](const auto& entry) { return entry.second.loses_keys; });
    return parsed;
  }
}

}  // namespace evenkeel::config_file
