#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>

#include "evenkeel/base/ascii.h"
#include "evenkeel/base/hex.h"
#include "evenkeel/base/rfc3339.h"
#include "evenkeel/base/utf8.h"
#include "evenkeel/config/spelling.h"
#include "evenkeel/tenancy/key_table.h"

namespace evenkeel {
namespace {

constexpr std::string_view form =
    "a line is sha256:HEX tenant=NAME [name=TEXT] [models=GLOB,GLOB] [expires=RFC3339]";
constexpr std::string_view hash_prefix = "sha256:";
constexpr std::size_t max_line_bytes = 8192;
constexpr std::size_t max_model_bytes = 256;
constexpr std::size_t max_models = 64;
constexpr std::size_t max_problems = 100;

/// A word of a line, and its column from 1.
struct Word {
  std::string_view text;
  int column;
};

/// The words of a line up to a comment.
std::vector<Word> words_of(std::string_view line) {
  constexpr std::string_view blank = " \t";
  std::vector<Word> words;
  for (std::size_t at = line.find_first_not_of(blank); at < line.size();) {
    if (line[at] == '#') break;
    const std::size_t end = std::min(line.find_first_of(blank, at), line.size());
    words.push_back({line.substr(at, end - at), static_cast<int>(at) + 1});
    at = line.find_first_not_of(blank, end);
  }
  return words;
}

/// The first byte that is not text.
std::optional<std::size_t> first_unprintable(std::string_view line) {
  for (std::size_t at = 0; at < line.size();) {
    const std::size_t length = utf8_length(line.substr(at));
    const auto first = static_cast<unsigned char>(line[at]);
    if (length == 0 || (first < 0x20 && first != '\t') || first == 0x7f) return at;
    at += length;
  }
  return std::nullopt;
}

std::vector<std::string> split_at_commas(std::string_view list) {
  std::vector<std::string> parts;
  while (true) {
    const std::size_t end = std::min(list.find(','), list.size());
    parts.emplace_back(list.substr(0, end));
    if (end == list.size()) return parts;
    list.remove_prefix(end + 1);
  }
}

/// Reads one line, and says what is wrong with it. What a line holds may be a key that was pasted
/// by mistake: no message shows it.
class LineReader {
 public:
  LineReader(std::string_view line, int number) : line_(line) { key_.number = number; }

  /// The key of the line; nothing if it is blank, or wrong.
  std::optional<KeyLine> read() {
    if (line_.size() > max_line_bytes) {
      fail(1, fmt::format("the line is longer than {} bytes", max_line_bytes));
      return std::nullopt;
    }
    if (const auto at = first_unprintable(line_)) {
      fail(static_cast<int>(*at) + 1, fmt::format("byte 0x{:02x} is not text in UTF-8",
                                                  static_cast<unsigned char>(line_[*at])));
      return std::nullopt;
    }
    const std::vector<Word> words = words_of(line_);
    if (words.empty()) return std::nullopt;
    read_hash(words.front());
    for (std::size_t i = 1; i < words.size() && !problem_; ++i) read_setting(words[i]);
    if (!problem_ && key_.tenant.empty()) fail(words.front().column, "the key has no tenant");
    if (problem_) return std::nullopt;
    return std::move(key_);
  }

  std::optional<FileProblem>& problem() { return problem_; }

 private:
  void fail(int column, std::string message, std::string help = std::string(form)) {
    problem_ = FileProblem{key_.number, column, std::move(message), std::move(help)};
  }

  void read_hash(const Word& word) {
    const bool has_prefix = word.text.starts_with(hash_prefix);
    const auto hash = has_prefix ? key_hash_of(word.text.substr(hash_prefix.size())) : std::nullopt;
    if (hash) {
      key_.hash = *hash;
      return;
    }
    if (has_prefix) {
      fail(word.column + static_cast<int>(hash_prefix.size()),
           fmt::format("the hash has {} characters, and is not 64 hexadecimal digits",
                       word.text.size() - hash_prefix.size()),
           "`printf %s KEY | sha256sum` prints it");
    } else {
      fail(word.column, "the line does not begin with sha256:");
    }
  }

  void read_setting(const Word& word) {
    const std::size_t equals = word.text.find('=');
    const std::string_view name = word.text.substr(0, equals);
    const std::string_view value =
        equals == std::string_view::npos ? std::string_view() : word.text.substr(equals + 1);
    static const std::vector<std::string> names = {"tenant", "name", "models", "expires"};
    const auto known = std::ranges::find(names, name);
    if (known == names.end()) {
      const auto meant = nearest_word(name, names);
      return fail(word.column, "this is not tenant=, name=, models= or expires=",
                  meant ? fmt::format("did you mean '{}='?", *meant) : std::string(form));
    }
    if (std::ranges::find(seen_, name) != seen_.end())
      return fail(word.column, fmt::format("'{}=' is given twice", name));
    seen_.push_back(name);
    if (value.empty()) return fail(word.column, fmt::format("'{}=' has no value", name));
    const int column = word.column + static_cast<int>(equals) + 1;
    if (name == "tenant") {
      key_.tenant = value;
      key_.tenant_column = column;
    } else if (name == "name") {
      read_name(value, column);
    } else if (name == "models") {
      read_models(value, column);
    } else {
      read_expiry(value, column);
    }
  }

  void read_name(std::string_view value, int column) {
    if (value.size() > max_key_name_bytes)
      return fail(column, fmt::format("the name is longer than {} bytes", max_key_name_bytes));
    key_.name = value;
  }

  void read_models(std::string_view value, int column) {
    key_.models = split_at_commas(value);
    if (key_.models.size() > max_models)
      return fail(column, fmt::format("more than {} models", max_models), "use globs: llama-*");
    for (const std::string& model : key_.models) {
      if (model.empty()) return fail(column, "a model without a name", "models=llama-*,qwen-7b");
      if (model.size() > max_model_bytes)
        return fail(column,
                    fmt::format("the name of a model is longer than {} bytes", max_model_bytes));
    }
  }

  void read_expiry(std::string_view value, int column) {
    const auto time = parse_rfc3339(value);
    if (!time)
      return fail(column, "this is not a date and time of RFC 3339",
                  "such as expires=2027-01-31T00:00:00Z");
    key_.expires = std::chrono::sys_seconds(std::chrono::floor<std::chrono::seconds>(*time));
  }

  std::string_view line_;
  KeyLine key_;
  std::vector<std::string_view> seen_;
  std::optional<FileProblem> problem_;
};

}  // namespace

std::optional<KeyHash> key_hash_of(std::string_view hexadecimal) {
  KeyHash hash{};
  if (hexadecimal.size() != 2 * hash.size()) return std::nullopt;
  for (std::size_t i = 0; i < hash.size(); ++i) {
    const int high = hex_value(hexadecimal[2 * i]);
    const int low = hex_value(hexadecimal[2 * i + 1]);
    if (high < 0 || low < 0) return std::nullopt;
    hash[i] = static_cast<std::uint8_t>(high * 16 + low);
  }
  return hash;
}

std::string hexadecimal(const KeyHash& hash) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string text;
  for (const std::uint8_t byte : hash) {
    text += digits[byte >> 4U];
    text += digits[byte & 15U];
  }
  return text;
}

std::string key_id_of(const KeyHash& hash) {
  constexpr std::size_t id_digits = 8;
  return hexadecimal(hash).substr(0, id_digits);
}

KeyFileText read_keys(std::string_view text) {
  KeyFileText read;
  if (text.size() > max_key_file_bytes) {
    read.problems.push_back(
        {0, 0, fmt::format("is larger than {} MiB", max_key_file_bytes >> 20U), ""});
    return read;
  }
  constexpr std::string_view byte_order_mark = "\xef\xbb\xbf";
  if (text.starts_with(byte_order_mark)) text.remove_prefix(byte_order_mark.size());
  for (int number = 1; !text.empty(); ++number) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    LineReader reader(line, number);
    auto key = reader.read();
    if (key) read.keys.push_back(std::move(*key));
    if (reader.problem()) read.problems.push_back(std::move(*reader.problem()));
    if (read.problems.size() == max_problems) return read;
    if (read.keys.size() > max_keys) {
      read.problems.push_back({number, 1, fmt::format("more than {} keys", max_keys), ""});
      return read;
    }
  }
  return read;
}

std::string key_line_text(const KeyLine& key) {
  std::string line = fmt::format("{}{} tenant={}", hash_prefix, hexadecimal(key.hash), key.tenant);
  if (!key.name.empty()) line += " name=" + key.name;
  if (!key.models.empty()) line += fmt::format(" models={}", fmt::join(key.models, ","));
  if (key.expires) line += " expires=" + rfc3339(*key.expires);
  return line;
}

}  // namespace evenkeel
