#include "evenkeel/audit/audit_record.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

#include "evenkeel/base/hex.h"
#include "evenkeel/net/sha256.h"

namespace evenkeel {
namespace {

constexpr std::size_t hash_digits = 64;
constexpr std::string_view sequence_key = R"({"seq":)";
constexpr std::string_view torn_key = R"(,"torn":)";
constexpr std::string_view previous_key = R"(,"prev":")";
constexpr std::string_view hash_key = R"(","hash":")";
constexpr std::string_view line_tail = R"("})";
/// `hash` and what follows it, without the quote in front, which is the previous hash's.
constexpr std::size_t unhashed_bytes = hash_key.size() - 1 + hash_digits + line_tail.size();

std::string hash_of(std::string_view bytes, std::string_view key) {
  const Sha256 digest = key.empty() ? sha256(bytes) : hmac_sha256(key, bytes);
  return fmt::format("{:02x}", fmt::join(digest, ""));
}

bool take(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

bool take_number(std::string_view& text, std::uint64_t& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return false;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return true;
}

/// Takes a hash from the end of the text.
bool take_hash(std::string_view& text, std::string_view& hash) {
  if (text.size() < hash_digits) return false;
  hash = text.substr(text.size() - hash_digits);
  text.remove_suffix(hash_digits);
  return std::ranges::all_of(hash, [](char c) { return hex_value(c) >= 0; });
}

bool take_end(std::string_view& text, std::string_view suffix) {
  if (!text.ends_with(suffix)) return false;
  text.remove_suffix(suffix.size());
  return true;
}

}  // namespace

std::optional<AuditRecord> AuditRecord::parse(std::string_view line) {
  AuditRecord record;
  std::string_view rest = line;
  const bool has_end = take_end(rest, line_tail) && take_hash(rest, record.hash) &&
                       take_end(rest, hash_key) && take_hash(rest, record.previous) &&
                       take_end(rest, previous_key);
  if (!has_end || !take(rest, sequence_key) || !take_number(rest, record.sequence))
    return std::nullopt;
  if (take(rest, torn_key) && !take_number(rest, record.torn_bytes)) return std::nullopt;
  if (!rest.starts_with(',') || record.sequence == 0) return std::nullopt;
  record.hashed = line.substr(0, line.size() - unhashed_bytes);
  return record;
}

bool AuditRecord::is_intact(std::string_view key) const { return hash_of(hashed, key) == hash; }

std::string_view AuditRecord::time() const {
  constexpr std::string_view time_key = R"(,"time":")";
  const std::size_t at = hashed.find(time_key);
  if (at == std::string_view::npos) return {};
  const std::string_view value = hashed.substr(at + time_key.size());
  return value.substr(0, value.find('"'));
}

std::string audit_line(AuditHead& head, std::uint64_t torn_bytes, std::string_view members,
                       std::string_view key) {
  std::string line = fmt::format("{}{}", sequence_key, ++head.sequence);
  if (torn_bytes > 0) line += fmt::format("{}{}", torn_key, torn_bytes);
  line.append(",").append(members).append(previous_key).append(head.hash).append("\"");
  head.hash = hash_of(line, key);
  // The quote of the previous hash stands already.
  return line.append(hash_key.substr(1)).append(head.hash).append(line_tail).append("\n");
}

}  // namespace evenkeel
