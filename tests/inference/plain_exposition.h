// A simple and slow parser of metrics pages, a character at a time: the oracle for the fast one.
#pragma once

#include <cmath>
#include <cstdlib>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace evenkeel {

struct PlainSample {
  std::string name;
  std::vector<std::pair<std::string, std::string>> labels;  // as far as they can be parsed
  double value = 0;

  std::optional<std::string> label(std::string_view wanted) const {
    for (const auto& [name_of, value_of] : labels) {
      if (name_of == wanted) return value_of;
    }
    return std::nullopt;
  }
};

class PlainLine {
 public:
  explicit PlainLine(std::string text) : text_(std::move(text)) {}

  std::optional<PlainSample> sample() {
    PlainSample sample;
    skip_blanks();
    if (at_end() || peek() == '#') return std::nullopt;
    while (!at_end() && !blank(peek()) && peek() != '{') sample.name += next();
    if (sample.name.empty()) return std::nullopt;
    skip_blanks();
    if (!at_end() && peek() == '{') {
      next();
      std::string inside;
      if (!read_braces(inside)) return std::nullopt;
      sample.labels = PlainLine(inside).labels();
      skip_blanks();
    }
    std::string number;
    while (!at_end() && !blank(peek())) number += next();
    const auto value = value_of(number);
    if (!value) return std::nullopt;
    sample.value = *value;
    return sample;
  }

 private:
  static bool blank(char c) { return c == ' ' || c == '\t'; }
  bool at_end() const { return at_ == text_.size(); }
  char peek() const { return text_[at_]; }
  char next() { return text_[at_++]; }
  void skip_blanks() {
    while (!at_end() && blank(peek())) next();
  }

  /// Up to the first brace outside quotes.
  bool read_braces(std::string& inside) {
    bool quoted = false;
    while (!at_end()) {
      const char c = next();
      if (!quoted && c == '}') return true;
      inside += c;
      if (c == '"') quoted = !quoted;
      if (quoted && c == '\\' && !at_end()) inside += next();
    }
    return false;
  }

  std::vector<std::pair<std::string, std::string>> labels() {
    std::vector<std::pair<std::string, std::string>> found;
    while (true) {
      while (!at_end() && (blank(peek()) || peek() == ',')) next();
      std::string name;
      while (!at_end() && peek() != '=') name += next();
      if (at_end()) return found;
      next();
      while (!name.empty() && blank(name.back())) name.pop_back();
      skip_blanks();
      if (at_end() || next() != '"') return found;
      std::string value;
      bool closed = false;
      while (!at_end() && !closed) {
        const char c = next();
        if (c == '"') {
          closed = true;
        } else if (c == '\\' && !at_end()) {
          const char escaped = next();
          if (escaped == 'n') {
            value += '\n';
          } else if (escaped == '"' || escaped == '\\') {
            value += escaped;
          } else {
            value += c;
            value += escaped;
          }
        } else {
          value += c;
        }
      }
      if (!closed) return found;
      found.emplace_back(name, value);
    }
  }

  static std::optional<double> value_of(std::string text) {
    std::string lower;
    for (const char c : text) lower += c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
    if (!lower.empty() && lower.front() == '+') lower.erase(0, 1);
    const bool negative = !lower.empty() && lower.front() == '-';
    const std::string rest = lower.substr(negative ? 1 : 0);
    if (rest == "nan") return std::nan("");
    if (rest == "inf" || rest == "infinity") return negative ? -INFINITY : INFINITY;
    if (rest.empty() || (rest.front() != '.' && (rest.front() < '0' || rest.front() > '9'))) {
      return std::nullopt;
    }
    for (const char c : rest) {
      if ((c < '0' || c > '9') && c != '.' && c != 'e' && c != '+' && c != '-') return std::nullopt;
    }
    char* end = nullptr;
    const double value = std::strtod(lower.c_str(), &end);
    if (*end != '\0' || end == lower.c_str()) return std::nullopt;
    // A number that a double cannot represent is not a value.
    if (std::isinf(value)) return std::nullopt;
    if (value == 0 && lower.find_first_of("123456789") < lower.find('e')) return std::nullopt;
    return value;
  }

  std::string text_;
  std::size_t at_ = 0;
};

/// All samples of a page, up to `# EOF`; a last line without a line feed does not count.
inline std::vector<PlainSample> read_plainly(std::string_view text) {
  std::vector<PlainSample> samples;
  std::string line;
  for (const char c : text) {
    if (c != '\n') {
      line += c;
      continue;
    }
    const bool too_long = line.size() > std::size_t{64} * 1024;
    if (!line.empty() && line.back() == '\r') line.pop_back();
    std::size_t first = 0;
    while (first < line.size() && (line[first] == ' ' || line[first] == '\t')) ++first;
    if (!too_long && line.substr(first) == "# EOF") return samples;
    if (auto sample = PlainLine(line).sample(); sample && !too_long) samples.push_back(*sample);
    line.clear();
  }
  return samples;
}

}  // namespace evenkeel
