#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "config/problems.h"
#include "evenkeel/config/load.h"
#include "evenkeel/config/tree.h"

namespace evenkeel::config_file {

// What the reading of one file shares: the report, the environment, and where in the
// file each key was, for checks that come after reading.
struct ParseContext {
  Report report;
  const Environment& environment;
  std::unordered_map<std::string, Mark> marks;  // path -> place of the value
  bool incomplete = false;  // a syntax error hides part of the file: what is missing may be there

  // The place of a key; of the innermost enclosing value if the key is not there.
  Mark mark_of(std::string path) const;

  // Reports a problem at a key.
  void add(const std::string& path, std::string message, std::string help = {}) {
    report.add(mark_of(path), path, std::move(message), std::move(help));
  }

  // Reports what does not keep the file from being used, unless its value is wrong anyway.
  void warn(const std::string& path, std::string message, std::string help = {}) {
    if (report.has_problem(path)) return;
    report.warn(mark_of(path), path, std::move(message), std::move(help));
  }
};

// What kind of value a key takes, in YAML's terms.
enum class Shape { scalar, list, map, scalar_or_map, scalar_or_list, map_or_list };

// A key that a struct has, as far as reading its mapping needs to know.
struct KnownKey {
  std::string_view name;
  Shape shape;
  bool required;
};

// A value of the file that is being read into a typed one; reports problems at its place.
class Node {
 public:
  Node(const Tree& tree, std::string path, ParseContext& context);

  const std::string& path() const { return path_; }
  bool is_list() const { return tree_.kind == Tree::Kind::list; }
  bool is_map() const { return tree_.kind == Tree::Kind::map; }
  bool is_scalar() const { return tree_.is_scalar(); }
  bool is_quoted() const { return tree_.kind == Tree::Kind::quoted; }

  // Reports a problem with this value. Of one from the environment only that it does not fit.
  void fail(std::string message, std::string help = {}) const;

  // "90000 is out of range, expected 1 to 65535"
  void fail_out_of_range(std::string_view found, std::string_view range,
                         std::string help = {}) const;

  // Reports that something is not there, unless it may be hidden by a mistake in the syntax.
  void fail_missing(std::string path, std::string message, std::string help = {}) const;

  // "expected a duration such as 30s, found the number 30"
  void fail_expected(std::string_view expected, std::string help = {}) const;

  // The text of a scalar with its ${VARIABLES} filled in; `from_environment` says whether there
  // were any. Otherwise reports what was expected and returns nothing.
  struct Scalar {
    std::string text;
    bool from_environment = false;
  };
  std::optional<Scalar> scalar(std::string_view expected) const;

  // Keeps what was made of a value from the environment, such as its host, out of messages too.
  void hide(const std::string& derived) const;

  // Keeps this value, as the file has it, out of messages and of the lines that they show.
  void hide_secret() const;
  // The same for the password, or token, of a URL's user.
  void hide_password() const;

  // The elements of a list. Otherwise reports what was expected and returns nothing; `keys` are
  // those of an element, if it is a struct.
  std::optional<std::vector<Node>> elements(std::string_view expected,
                                            const std::vector<KnownKey>& keys = {}) const;

  // The entries of a mapping with keys of the user's choice.
  std::optional<std::vector<std::pair<std::string, Node>>> entries(std::string_view expected) const;

  // Checks the keys of a mapping against those known: reports the unknown and the missing ones.
  // A misspelt key counts as the one that was meant, so that one mistake is one problem. False if
  // this is no mapping at all.
  bool match_keys(const std::vector<KnownKey>& known);

  // Reports a key as unknown, if it is there, that only structs with one of these values of `name`
  // have.
  void refuse_key(std::string_view key, std::span<const std::string_view> variants) const;

  // True if the key is there, whatever its value. REQUIRES: match_keys returned true.
  bool has(std::string_view key) const { return matched_.count(key) > 0; }

  // The value of a key, if it is there and of the right shape. REQUIRES: match_keys returned true.
  std::optional<Node> child(std::string_view key) const;

 private:
  bool from_environment() const { return context_.report.variables.written.contains(path_); }
  std::string found() const;
  std::string help_for_list(const std::vector<KnownKey>& keys) const;
  // False if the key was never one of the file.
  bool report_moved_key(std::size_t index) const;
  void report_unknown_key(std::size_t index, const std::vector<KnownKey>& known);
  std::vector<std::string> places_of(std::string_view key, bool only_below) const;
  std::optional<std::string> expand(std::string_view text, bool& expanded) const;
  std::optional<std::string> variable(std::string_view reference) const;

  const Tree& tree_;
  std::string path_;
  ParseContext& context_;
  std::unordered_map<std::string_view, const Tree*> matched_;  // key -> value; null: not usable
};

}  // namespace evenkeel::config_file
