// The lines of a configuration file, and where in them something is.
#pragma once

#include <yaml-cpp/mark.h>

#include <cstddef>
#include <string_view>
#include <vector>

#include "config/problems.h"

namespace evenkeel::config_file {

// yaml-cpp counts columns in bytes from 0; editors count characters from 1. Refers to the text.
class TextLines {
 public:
  explicit TextLines(std::string_view text);

  Mark mark_of(const YAML::Mark& mark) const;
  // The place of a byte of the text, which must be the whole of these lines.
  Mark mark_of(std::string_view text, std::size_t offset) const;

  // The line with this number, counted from 1; empty past the end.
  std::string_view at(int number) const;
  // The start of the last line.
  Mark last() const;

 private:
  // The characters of a line up to a byte. Marks mostly follow each other, so that a file of one
  // long line is not counted from its start for each of them.
  struct Counted {
    int line = -1;
    std::size_t end = 0;
    std::ptrdiff_t characters = 0;
  };

  std::vector<std::string_view> lines_;
  mutable Counted counted_;  // of the last mark
};

}  // namespace evenkeel::config_file
