#include "evenkeel/config/spelling.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "config/synonyms.h"
#include "config/text.h"

namespace evenkeel {
namespace {

constexpr std::size_t max_compared_length = 128;

std::string without_separators(std::string_view word) {
  return config_file::lower_without("-_ ", word);
}

// True for "first" and "byte" in "first_byte"; a part within does not count.
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

  // Cells further than `limit` from the diagonal are at least `limit`, and are not computed.
  std::vector<std::size_t> before_last(b.size() + 1, limit), last(before_last), row(before_last);
  for (std::size_t j = 0; j <= std::min(b.size(), limit); ++j) last[j] = j;
  std::size_t least_before = 0;  // of the row before
  for (std::size_t i = 1; i <= a.size(); ++i) {
    const std::size_t first = i > limit ? i - limit : 1;
    row[first - 1] = first == 1 ? i : limit;
    std::size_t least = row[first - 1];
    for (std::size_t j = first; j <= std::min(b.size(), i + limit); ++j) {
      const std::size_t substituted = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({substituted, last[j] + 1, row[j - 1] + 1});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) row[j] = std::min(row[j], before_last[j - 2] + 1);
      least = std::min(least, row[j]);
    }
    // Later rows build on the last two.
    if (least >= limit && least_before >= limit) return limit;
    least_before = least;
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

namespace {

/// A name as it is compared: whole, and the part that people write for short.
struct ComparedName {
  explicit ComparedName(std::string_view name)
      : whole(without_separators(name)), short_form(without_separators(short_form_of(name))) {}

  static std::string_view short_form_of(std::string_view name) {
    if (const auto slash = name.rfind('/'); slash != std::string_view::npos)
      name.remove_prefix(slash + 1);
    return name.substr(0, name.find(':'));
  }

  std::string whole;
  std::string short_form;
};

constexpr std::size_t no_rank = 100;

/// A short name has few edits: all names of three letters are alike.
std::size_t rank_of_edits(std::string_view a, std::string_view b) {
  const std::size_t shorter = std::min(a.size(), b.size());
  const std::size_t allowed = shorter <= 3 ? 1 : shorter <= 8 ? 2 : 3;
  const std::size_t edits = edit_distance(a, b, allowed + 1);
  return edits <= allowed ? edits : no_rank;
}

/// Returns 0 for the same name; the lower, the nearer.
std::size_t rank_of(const ComparedName& wanted, const ComparedName& known) {
  constexpr std::size_t min_part = 3;
  if (wanted.whole == known.whole) return 0;
  if (!wanted.short_form.empty() && wanted.short_form == known.short_form) return 1;
  const std::size_t edits = std::min(rank_of_edits(wanted.whole, known.whole),
                                     rank_of_edits(wanted.short_form, known.short_form));
  if (edits != no_rank) return 1 + edits;
  const auto begins = [](std::string_view whole, std::string_view part) {
    return part.size() >= min_part && whole.starts_with(part);
  };
  const bool related = begins(known.short_form, wanted.short_form) ||
                       begins(wanted.short_form, known.short_form) ||
                       begins(known.whole, wanted.whole);
  return related ? 10 : no_rank;
}

}  // namespace

UnknownWord unknown_word(std::string_view what, std::string_view word,
                         const std::vector<std::string>& known) {
  const auto meant = nearest_word(word, known);
  return {
      .message = fmt::format("unknown {} '{}', available: {}", what, word, fmt::join(known, ", ")),
      .help = meant ? fmt::format("did you mean '{}'?", *meant) : std::string()};
}

UnknownWord unknown_word(std::string_view what, std::string_view word,
                         std::span<const std::string_view> known) {
  return unknown_word(what, word, std::vector<std::string>(known.begin(), known.end()));
}

std::string to_string(const UnknownWord& unknown) {
  return unknown.help.empty() ? unknown.message : unknown.message + "; " + unknown.help;
}

std::vector<std::string_view> near_names(std::string_view name,
                                         std::span<const std::string_view> names) {
  if (name.empty() || name.size() > max_compared_length) return {};
  const ComparedName wanted(name);
  std::vector<std::pair<std::size_t, std::size_t>> near;  // rank and index
  for (std::size_t i = 0; i < std::min(names.size(), max_looked_at_names); ++i) {
    const std::size_t rank = rank_of(wanted, ComparedName(names[i]));
    if (rank != no_rank) near.emplace_back(rank, i);
  }
  std::ranges::sort(near);
  std::vector<std::string_view> nearest;
  for (const auto& [rank, index] : near) {
    const std::string_view each = names[index];
    if (nearest.size() == max_near_names) break;
    if (std::ranges::find(nearest, each) == nearest.end()) nearest.push_back(each);
  }
  return nearest;
}

}  // namespace evenkeel
