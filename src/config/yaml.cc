#include "config/yaml.h"

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <optional>
#include <sstream>
#include <string>
#include <utility>

#include "config/text_lines.h"
#include "config/tree_builder.h"

namespace evenkeel::config_file {
namespace {

constexpr std::size_t max_patches = 20;
constexpr std::size_t max_patched_bytes = 1024UL * 1024;  // each patch reads the text once more

std::string_view indentation_of(std::string_view line) {
  return line.substr(0, std::min(line.find_first_not_of(" \t"), line.size()));
}

struct KeyWithoutSpace {
  Mark mark;
  std::string_view name;
  std::string_view value;
};

// "name:a" in the last line with text above this one: it is read on as one text.
std::optional<KeyWithoutSpace> key_without_space_above(int line, const TextLines& lines) {
  constexpr std::string_view letters = "abcdefghijklmnopqrstuvwxyz_";
  do {
    --line;
  } while (line > 0 && indentation_of(lines.at(line)).size() == lines.at(line).size());
  if (line <= 0) return std::nullopt;
  const std::string_view text = lines.at(line);
  const std::size_t start = std::min(text.find_first_not_of(" -"), text.size());
  const std::size_t colon = text.find_first_not_of(letters, start);
  if (colon == text.npos || colon == start || text[colon] != ':') return std::nullopt;
  const std::string_view value = text.substr(colon + 1);
  const bool is_item = start > 0 && text.substr(0, start).find('-') != text.npos;
  const bool is_number = value.find_first_not_of("0123456789") == value.npos;
  const bool is_address = value.starts_with('/') || (is_item && is_number);  // "- localhost:8000"
  if (is_address || value.empty() || value.starts_with(' ')) return std::nullopt;
  return KeyWithoutSpace{
      {line, static_cast<int>(colon) + 2}, text.substr(start, colon - start), value};
}

Explanation deep_nesting(Mark mark) {
  return {mark, fmt::format("nested more than {} levels deep", max_depth), {}};
}

// Why a file is not read at all: what brackets hold is more than any file has. yaml-cpp keeps
// tokens of all that is behind a bracket until that one is closed, some 240 bytes for each. What
// texts and comments have of these characters counts, too: no file has so many.
std::optional<Explanation> find_flow_excess(std::string_view text, const TextLines& lines) {
  std::size_t depth = 0;
  std::size_t values = 0;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    const bool opens = c == '[' || c == '{';
    const bool may_be_token = opens || c == ':' || c == '?' || c == ',';
    if (depth > 0 && may_be_token && ++values > max_values) {
      const Mark mark = lines.mark_of(text, at);
      const bool mostly_brackets = depth > values / 2;
      return mostly_brackets ? deep_nesting(mark) : Explanation{mark, too_many_values, {}};
    }
    if (opens) ++depth;
    if ((c == ']' || c == '}') && depth > 0) --depth;
  }
  return std::nullopt;
}

// A file that is not read any further.
ParsedYaml unread(Explanation why) {
  ParsedYaml parsed;
  parsed.root.mark = {1, 1};
  parsed.syntax_error = {why.mark, std::move(why.message), {}, 0};
  return parsed;
}

// yaml-cpp reports what its grammar expected; this says what to change in the file.
Explanation explain(const YAML::Exception& error, const TreeBuilder& builder,
                    const TextLines& lines, std::string_view text) {
  Mark mark = lines.mark_of(error.mark);
  if (mark.line == 0) mark = lines.last();
  const std::string_view line = lines.at(mark.line);
  const Tree* innermost = builder.innermost();

  if (error.msg == YAML::ErrorMsg::BAD_FILE) {
    return deep_nesting(mark);
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
    if (const auto key = key_without_space_above(mark.line, lines)) {
      return {key->mark, fmt::format("not YAML: no space behind '{}:'", key->name),
              fmt::format("write '{}: {}'", key->name, key->value)};
    }
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

void report_second_document(const YAML::Mark& at, const TextLines& lines, Report& report) {
  const Mark mark = lines.mark_of(at);
  if (lines.at(mark.line).starts_with("---")) {
    report.add(mark, {}, "a second document", "a file holds one; remove the '---'");
  } else {
    report.add(mark, {}, "text after the end of the document", "check the indentation");
  }
}

// True if the mistake is in one scalar, which reads on once the character is another one.
bool can_be_patched(const YAML::Exception& error, const std::string& text) {
  const bool in_a_scalar = error.msg == YAML::ErrorMsg::UNKNOWN_ANCHOR ||
                           error.msg == YAML::ErrorMsg::UNKNOWN_TOKEN ||
                           error.msg == YAML::ErrorMsg::MAP_VALUE;
  if (!in_a_scalar || error.mark.pos < 0) return false;
  const auto position = static_cast<std::size_t>(error.mark.pos);
  return position < text.size() && text[position] != patch && text[position] != '\n';
}

// Reports what follows the document that `parser` has read.
void read_second_document(YAML::Parser& parser, const TextLines& lines, Report& report) {
  const Explanations no_patches;
  Report unused = report;
  TreeBuilder rest{{}, lines, no_patches, unused};
  std::optional<YAML::Mark> found;
  try {
    parser.HandleNextDocument(rest);
  } catch (const YAML::Exception& error) {
    found = error.mark;
  }
  if (rest.document_start()) found = rest.document_start();
  if (found) report_second_document(*found, lines, report);
}

}  // namespace

ParsedYaml parse_yaml(std::string_view original, Report& report) {
  const TextLines lines{original};
  const Report before = report;
  if (auto excess = find_flow_excess(original, lines)) return unread(std::move(*excess));
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
      if (error.msg == too_many_values)
        return unread({lines.mark_of(error.mark), too_many_values, {}});
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
