#include "evenkeel/config/spelling.h"

#include <algorithm>
#include <cctype>

#include "config/synonyms.h"

namespace evenkeel {
namespace {

constexpr std::size_t max_compared_length = 128;

std::string without_separators(std::string_view word) {
  std::string out;
  for (char c : word) {
    if (c == '-' || c == '_' || c == ' ') continue;
    out += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return out;
}

// "first_byte" begins with "first" and ends with "byte"; a part within does not count.
bool begins_or_ends_with(std::string_view whole, std::string_view part) {
  if (part.size() < 2 || whole.size() <= part.size()) return false;
  const auto is_seam = [](char c) { return c == '_' || c == '-'; };
  return (whole.starts_with(part) && is_seam(whole[part.size()])) ||
         (whole.ends_with(part) && is_seam(whole[whole.size() - part.size() - 1]));
}

}  // namespace

std::size_t edit_distance(std::string_view a, std::string_view b, std::size_t limit) {
  const std::size_t apart = a.size() > b.size() ? a.size() - b.size() : b.size() - a.size();
  if (apart >= limit || std::max(a.size(), b.size()) > max_compared_length) return limit;

  std::vector<std::size_t> before_last(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t substituted = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({substituted, last[j] + 1, row[j - 1] + 1});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) row[j] = std::min(row[j], before_last[j - 2] + 1);
    }
    std::swap(before_last, last);
    std::swap(last, row);
  }
  return std::min(last[b.size()], limit);
}

std::optional<std::string> nearest_word(std::string_view word,
                                        const std::vector<std::string>& words) {
  const std::string plain = without_separators(word);
  const auto same = std::ranges::find(words, plain, without_separators);
  if (same != words.end()) return *same;
  if (auto meaning = config_file::meaning_of(word, words)) return meaning;

  std::optional<std::string> nearest;
  std::size_t least = 3;
  for (const auto& candidate : words) {
    const std::size_t distance = edit_distance(word, candidate, 3);
    const std::size_t allowed = std::min(word.size(), candidate.size()) <= 3 ? 1 : 2;
    if (distance > allowed || distance >= least) continue;
    nearest = candidate;
    least = distance;
  }
  if (nearest) return nearest;
  for (const auto& candidate : words) {
    const bool related =
        begins_or_ends_with(word, candidate) || begins_or_ends_with(candidate, word);
    if (related && (!nearest || candidate.size() > nearest->size())) nearest = candidate;
  }
  return nearest;
}

}  // namespace evenkeel
