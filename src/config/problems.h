#pragma once

#include <set>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "evenkeel/config/load.h"
#include "evenkeel/config/tree.h"

namespace evenkeel::config_file {

// Collects the problems of one file.
class Report {
 public:
  // Problems beyond these are only counted: a file of 10 000 routes may have as many.
  static constexpr std::size_t max_listed = 100;

  explicit Report(std::string file) : file_(std::move(file)) {}

  void add(Mark mark, std::string path, std::string message, std::string help = {});

  // Adds a problem at a place in a file that the configuration names at `path`.
  void add_in_file(std::string file, const FileProblem& problem, std::string path);

  // Adds a problem that does not keep the file from being used.
  void warn(Mark mark, std::string path, std::string message, std::string help = {});

  // True if there is a problem at this key or inside it. A value with a problem is no basis for
  // further checks.
  bool has_problem(const std::string& path) const { return affected_paths_.count(path) > 0; }

  // Drops the problems at or below a line: after a syntax error they are guesswork.
  void discard_from(int line);

  // Keeps a value that may be a secret out of messages, and of the lines that they show. One that
  // cannot be one is shown: a number, a path, a variable, a short word.
  void hide_secret(const std::string& value);

  // The text with as many asterisks in place of these values.
  std::string without_secrets(std::string text) const;

  std::size_t size() const { return problems_.list.size() + problems_.more; }

  // Returns the problems in the order of the file; after `max_listed` of them, the number of
  // others. Values from the environment and secrets are hidden.
  std::vector<Problem> take();
  std::vector<Problem> take_warnings();

  VariablesUsed variables;

 private:
  // The first ones in the order of the file, as far as there may be more than are listed.
  struct First {
    void add(Problem problem);

    std::vector<Problem> list;
    std::size_t more = 0;  // after those
  };
  std::vector<Problem> in_order(First problems) const;
  void add_affected(const std::string& path);

  std::string file_;
  First problems_;
  First warnings_;
  std::unordered_set<std::string> affected_paths_;
  std::set<std::string> secrets_;
};

// The lines of a text, without their ends.
std::vector<std::string_view> split_lines(std::string_view text);

}  // namespace evenkeel::config_file
