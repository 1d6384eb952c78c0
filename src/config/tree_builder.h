// A tree built from yaml-cpp's events.
#pragma once

#include <yaml-cpp/eventhandler.h>

#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "config/problems.h"
#include "config/text_lines.h"
#include "evenkeel/config/tree.h"

namespace evenkeel::config_file {

// No meaningful file nests deeper; yaml-cpp itself fails at 500.
inline constexpr std::size_t max_depth = 64;

// Nor has any more keys and values. Each takes some 300 bytes until the file has been checked.
inline constexpr std::size_t max_values = 500'000;
inline constexpr const char* too_many_values = "more than 500,000 keys and values";

// Replaces a character that YAML does not allow where it is, so that parsing can continue. It
// occurs in no text.
inline constexpr char patch = '\x01';

// The message of the exception for a scalar without its closing quote.
inline constexpr const char* unclosed_quote = "a quoted text that never ends";

// True if the scalar that begins at `start` has a closing quote: without one, yaml-cpp ends the
// text at the end of the file.
bool has_closing_quote(std::string_view text, std::size_t start);

// What a syntax error means, in terms of the file.
struct Explanation {
  Mark mark;
  std::string message;
  std::string help;
  bool loses_keys = false;  // the patched text may have swallowed keys
};

// One for each patch, in the order of the text.
using Explanations = std::map<std::size_t, Explanation>;

// Makes a tree of what yaml-cpp reads, and reports what YAML allows and a configuration does not:
// aliases, anchors, tags, merge keys, duplicate keys.
class TreeBuilder : public YAML::EventHandler {
 public:
  TreeBuilder(std::string_view text, const TextLines& lines, const Explanations& patches,
              Report& report)
      : text_(text), lines_(lines), patches_(patches), report_(report) {}

  Tree take_root() { return std::move(root_); }

  // The outermost open [ or {, where a syntax error leaves one open.
  const Mark* open_flow() const;

  // The innermost.
  const Tree* innermost() const { return frames_.empty() ? nullptr : &frames_.back().tree; }

  const std::optional<YAML::Mark>& document_start() const { return document_start_; }

  // Where in the text the last thing that was read began.
  std::size_t last_position() const { return last_position_; }

  // Closes what a syntax error left open. The last scalar may contain part of the mistake.
  void close_unterminated();

  // Names anchors that no alias uses; those that are used were reported where they are.
  void report_unused_anchors();

  void OnDocumentStart(const YAML::Mark& mark) override { document_start_ = mark; }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override;
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override;
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override;
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value style) override;
  void OnSequenceEnd() override { close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value style) override;
  void OnMapEnd() override { close(); }

 private:
  struct Frame {
    Tree tree;
    std::string path;
    std::optional<Tree::Key> key;  // of a map, while its value is awaited
    bool key_discarded = false;    // a duplicate or no key at all: its value is dropped
    std::unordered_map<std::string, int> seen;  // of a map: keys and their lines
    bool is_flow = false;
  };

  void report_patches(std::size_t start, const std::string& value);
  void record_anchor(const YAML::Mark& mark, YAML::anchor_t anchor);
  bool check_tag(Mark mark, const std::string& tag);
  void open(Tree tree, const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
            YAML::EmitterStyle::value style);
  void close();
  // The path of the value that comes next.
  std::string path() const;
  void attach(Tree value);
  void attach_key(Frame& frame, Tree value);

  std::string_view text_;
  const TextLines& lines_;
  const Explanations& patches_;
  Report& report_;
  std::optional<YAML::Mark> document_start_;
  Tree root_;
  std::vector<Frame> frames_;
  std::vector<std::pair<YAML::anchor_t, Mark>> anchors_;
  std::set<YAML::anchor_t> aliased_;
  std::size_t last_position_ = 0;
  bool last_scalar_ = false;
  std::size_t values_ = 0;
};

}  // namespace evenkeel::config_file
