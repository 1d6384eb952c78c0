#include "hpack_encoder.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>

#include "evenkeel/base/ascii.h"
#include "evenkeel/http/credentials.h"

namespace evenkeel {
namespace {

constexpr std::uint32_t entry_overhead = 32;  // RFC 7541, section 4.1
constexpr std::size_t max_integer_bytes = 6;
constexpr std::size_t short_cookie_bytes = 20;

/// The first byte of a field (RFC 7541, section 6), and how many of its bits are of a number.
struct Kind {
  unsigned pattern;
  unsigned bits;
};
constexpr Kind indexed{0x80, 7};
constexpr Kind inserted{0x40, 6};
constexpr Kind not_indexed{0x00, 4};
constexpr Kind never_indexed{0x10, 4};
constexpr Kind table_size{0x20, 5};
constexpr Kind plain_string{0x00, 7};

/// The first index behind the static table.
constexpr std::uint32_t first_dynamic_index = 62;

/// The names of the static table with their first index, and their id.
constexpr struct {
  std::string_view name;
  std::uint8_t index;
  FieldId id = FieldId::other;
} static_names[] = {
    {"accept-charset", 15},
    {"accept-encoding", 16},
    {"accept-language", 17},
    {"accept-ranges", 18},
    {"accept", 19, FieldId::accept},
    {"access-control-allow-origin", 20},
    {"age", 21},
    {"allow", 22},
    {"authorization", 23, FieldId::authorization},
    {"cache-control", 24},
    {"content-disposition", 25},
    {"content-encoding", 26, FieldId::content_encoding},
    {"content-language", 27},
    {"content-length", 28, FieldId::content_length},
    {"content-location", 29},
    {"content-range", 30},
    {"content-type", 31, FieldId::content_type},
    {"cookie", 32, FieldId::cookie},
    {"date", 33, FieldId::date},
    {"etag", 34},
    {"expect", 35, FieldId::expect},
    {"expires", 36},
    {"from", 37},
    {"host", 38, FieldId::host},
    {"if-match", 39},
    {"if-modified-since", 40},
    {"if-none-match", 41},
    {"if-range", 42},
    {"if-unmodified-since", 43},
    {"last-modified", 44},
    {"link", 45},
    {"location", 46},
    {"max-forwards", 47},
    {"proxy-authenticate", 48, FieldId::proxy_authenticate},
    {"proxy-authorization", 49, FieldId::proxy_authorization},
    {"range", 50},
    {"referer", 51},
    {"refresh", 52},
    {"retry-after", 53, FieldId::retry_after},
    {"server", 54, FieldId::server},
    {"set-cookie", 55},
    {"strict-transport-security", 56},
    {"transfer-encoding", 57, FieldId::transfer_encoding},
    {"user-agent", 58, FieldId::user_agent},
    {"vary", 59},
    {"via", 60, FieldId::via},
    {"www-authenticate", 61},
};

/// 0 if the name is not in the static table.
std::uint32_t find_static(std::string_view name) {
  for (const auto& known : static_names) {
    if (known.name.size() == name.size() && equals_ignore_case(known.name, name)) {
      return known.index;
    }
  }
  return 0;
}

/// The indices of `find_static` by id, for the names that have one.
constexpr auto static_by_id = [] {
  std::array<std::uint8_t, 64> indexes{};
  for (const auto& known : static_names) {
    if (known.id != FieldId::other) indexes[static_cast<std::size_t>(known.id)] = known.index;
  }
  return indexes;
}();

/// A pseudo-field in the static table: the index of the field, or 0, and the one of its name.
struct StaticPseudoField {
  std::uint32_t exact = 0;
  std::uint32_t name = 0;
};

StaticPseudoField find_static_status(std::string_view value) {
  constexpr std::uint32_t first = 8;
  if (value == "200") return {first, first};
  constexpr std::string_view others[] = {"204", "206", "304", "400", "404", "500"};
  const auto* const found = std::find(std::begin(others), std::end(others), value);
  if (found == std::end(others)) return {0, first};
  return {first + 1 + static_cast<std::uint32_t>(found - std::begin(others)), first};
}

StaticPseudoField find_static_pseudo(std::string_view name, std::string_view value) {
  switch (name[1]) {
    case 'a': return {0, 1};
    case 'm': return {value == "POST" ? 3u : value == "GET" ? 2u : 0, 2};
    case 'p':
      if (name != ":path") return {};  // :protocol
      return {value == "/" ? 4u : value == "/index.html" ? 5u : 0, 4};
    case 's':
      if (name[2] == 't') return find_static_status(value);
      return {value == "http" ? 6u : value == "https" ? 7u : 0, 6};
    default: return {};
  }
}

char* put_rest_of_number(char* out, std::uint32_t rest) {
  for (; rest >= 0x80; rest >>= 7) *out++ = static_cast<char>(0x80 | (rest & 0x7f));
  *out++ = static_cast<char>(rest);
  return out;
}

inline char* put_number(char* out, Kind kind, std::uint32_t number) {
  const std::uint32_t limit = (1u << kind.bits) - 1;
  *out++ = static_cast<char>(kind.pattern | std::min(number, limit));
  return number < limit ? out : put_rest_of_number(out, number - limit);
}

char* put_string(char* out, std::string_view text) {
  out = put_number(out, plain_string, static_cast<std::uint32_t>(text.size()));
  if (!text.empty()) std::memcpy(out, text.data(), text.size());
  return out + text.size();
}

char* put_name(char* out, std::string_view name) {
  out = put_number(out, plain_string, static_cast<std::uint32_t>(name.size()));
  return std::transform(name.begin(), name.end(), out, to_lower);
}

/// A field that is sent as it is.
char* put_literal(char* out, Kind kind, std::uint32_t name_index, std::string_view name,
                  std::string_view value) {
  out = put_number(out, kind, name_index);
  if (name_index == 0) out = put_name(out, name);
  return put_string(out, value);
}

/// Names with an id, and pseudo-fields, have a small number for a hash, which is theirs alone.
constexpr std::uint32_t hashed_name = 0x80000000;

constexpr std::uint64_t fold_case = 0x2020202020202020;

/// Eight bytes at a time; `folded` is or-ed into each, so that case makes no difference.
std::uint32_t hash_bytes(std::string_view bytes, std::uint64_t seed, std::uint64_t folded) {
  constexpr std::uint64_t factor = 0x9e3779b97f4a7c15;
  std::uint64_t hash = (seed ^ bytes.size()) * factor;
  const auto mix = [&](std::uint64_t word) {
    hash = (hash ^ (word | folded)) * factor;
    hash ^= hash >> 29;
  };
  const char* at = bytes.data();
  std::size_t left = bytes.size();
  for (; left >= 8; at += 8, left -= 8) {
    std::uint64_t word;
    std::memcpy(&word, at, sizeof word);
    mix(word);
  }
  if (left >= 4) {
    std::uint32_t first;
    std::uint32_t last;
    std::memcpy(&first, at, sizeof first);
    std::memcpy(&last, at + left - 4, sizeof last);
    mix(std::uint64_t{first} << 32 | last);
  } else if (left > 0) {
    const auto byte = [at](std::size_t place) {
      return std::uint64_t{static_cast<unsigned char>(at[place])};
    };
    mix(byte(0) << 16 | byte(left / 2) << 8 | byte(left - 1));
  }
  return static_cast<std::uint32_t>(hash >> 32);
}

/// Values that must not be guessed by trying what makes a block smaller.
bool is_secret(FieldId id, std::string_view value) {
  return id == FieldId::authorization || id == FieldId::proxy_authorization ||
         (id == FieldId::cookie && value.size() < short_cookie_bytes);
}

/// Values that rarely repeat.
bool is_unique(FieldId id) {
  return id == FieldId::x_request_id || id == FieldId::content_length || id == FieldId::traceparent;
}

}  // namespace

HpackEncoder::~HpackEncoder() {
  if (table_ == nullptr) return;
  for (std::size_t place = 0; place < max_entries; ++place) forget(place);
}

void HpackEncoder::limit_table(std::uint32_t bytes) {
  const std::uint32_t size = std::min(bytes, max_table_bytes);
  table_bytes_ = std::min(table_bytes_, size);
  lowest_bytes_ = std::min(lowest_bytes_, size);
  if (table_ != nullptr) {
    // What the peer has dropped does not come back when the table grows.
    for (std::size_t place = 0; place < max_entries; ++place) {
      if (!valid(table_->entries[place])) forget(place);
    }
  }
  table_bytes_ = size;
}

std::size_t HpackEncoder::max_bytes(const Fields& section) {
  std::size_t bytes = 2 * max_integer_bytes;  // sizes of the table
  for (const Field& field : section) {
    bytes += 3 * max_integer_bytes + field.name_size + field.value_size;
  }
  return bytes;
}

char* HpackEncoder::encode(const Fields& section, char* out) {
  out = announce_size(out);
  for (const Field& field : section) {
    const bool pseudo = field.id == FieldId::other && *field.name_begin == ':';
    out = pseudo ? encode_pseudo(field, out) : encode_field(field, out);
  }
  return out;
}

/// Section 4.2 of RFC 7541: the lowest size since the last block, then the current one.
char* HpackEncoder::announce_size(char* out) {
  if (lowest_bytes_ < announced_bytes_) {
    out = put_number(out, table_size, lowest_bytes_);
    announced_bytes_ = lowest_bytes_;
  }
  if (table_bytes_ != announced_bytes_) {
    out = put_number(out, table_size, table_bytes_);
    announced_bytes_ = table_bytes_;
  }
  lowest_bytes_ = table_bytes_;
  return out;
}

char* HpackEncoder::encode_pseudo(const Field& field, char* out) {
  const std::string_view name = field.name();
  const StaticPseudoField known = find_static_pseudo(name, field.value());
  if (field.never_indexed) [[unlikely]]
    return put_literal(out, never_indexed, known.name, name, field.value());
  if (known.exact != 0) return put_number(out, indexed, known.exact);
  return encode_repeating({name, known.name}, known.name, field.value(), out);
}

char* HpackEncoder::encode_field(const Field& field, char* out) {
  const std::string_view value = field.value();
  if (field.id == FieldId::other) {
    const std::string_view name = field.name();
    if (field.never_indexed || holds_credential(field)) [[unlikely]]
      return put_literal(out, never_indexed, find_static(name), name, value);
    return encode_repeating({name, hash_bytes(name, 0, fold_case) | hashed_name}, 0, value, out);
  }
  const std::uint32_t static_index = static_by_id[static_cast<std::size_t>(field.id)];
  const Name name{lower_case_name(field.id), static_cast<std::uint32_t>(field.id) + 16};
  if (field.never_indexed || is_secret(field.id, value)) [[unlikely]]
    return put_literal(out, never_indexed, static_index, name.text, value);
  if (is_unique(field.id)) {
    const std::uint32_t name_index = static_index != 0 ? static_index : find(name, value).name;
    if (name_index != 0) return put_literal(out, not_indexed, name_index, name.text, value);
  }
  return encode_repeating(name, static_index, value, out);
}

/// A field whose value may be sent again.
char* HpackEncoder::encode_repeating(const Name& name, std::uint32_t static_index,
                                     std::string_view value, char* out) {
  const Match match = find(name, value);
  if (match.exact != 0) return put_number(out, indexed, match.exact);
  std::uint32_t name_index = static_index != 0 ? static_index : match.name;
  if (name_index == 0) name_index = find_static(name.text);
  if (!fits(name, value) || (name_index != 0 && !seen_before(hash_bytes(value, name.hash, 0)))) {
    return put_literal(out, not_indexed, name_index, name.text, value);
  }
  insert(name, value);
  return put_literal(out, inserted, name_index, name.text, value);
}

std::uint32_t HpackEncoder::index_of(const Entry& entry) const {
  return first_dynamic_index + (inserted_ - 1 - entry.number);
}

HpackEncoder::Match HpackEncoder::find(const Name& name, std::string_view value) const {
  Match match;
  if (table_ == nullptr) return match;
  std::uint8_t place = table_->buckets[name.hash % max_entries];
  while (place != none) {
    const Entry& entry = table_->entries[place];
    if (!valid(entry)) break;  // as are those that are older
    const bool same_name = entry.name_hash == name.hash &&
                           (name.hash < hashed_name || equals_ignore_case(entry.name(), name.text));
    if (same_name) {
      if (match.name == 0) match.name = index_of(entry);
      if (entry.value() == value) {
        match.exact = index_of(entry);
        break;
      }
    }
    place = entry.older;
  }
  return match;
}

/// True if the value was among the last that were sent, as it is from now on.
bool HpackEncoder::seen_before(std::uint32_t hash) {
  if (table_ == nullptr) table_ = std::make_unique<Table>();
  return std::exchange(table_->seen[hash % table_->seen.size()], hash) == hash;
}

bool HpackEncoder::fits(const Name& name, std::string_view value) const {
  return name.text.size() + value.size() + entry_overhead <= table_bytes_ / 2;
}

void HpackEncoder::insert(const Name& name, std::string_view value) {
  if (table_ == nullptr) table_ = std::make_unique<Table>();
  const std::size_t place = inserted_ % max_entries;
  forget(place);
  const std::size_t size = name.text.size() + value.size();
  Entry& entry = table_->entries[place];
  entry.bytes = static_cast<char*>(allocate_pooled(std::max<std::size_t>(size, 1)));
  std::transform(name.text.begin(), name.text.end(), entry.bytes, to_lower);
  if (!value.empty()) std::memcpy(entry.bytes + name.text.size(), value.data(), value.size());
  entry.name_hash = name.hash;
  entry.number = inserted_++;
  entry.begin = inserted_bytes_;
  entry.name_size = static_cast<std::uint16_t>(name.text.size());
  entry.value_size = static_cast<std::uint16_t>(value.size());
  inserted_bytes_ += static_cast<std::uint32_t>(size) + entry_overhead;
  std::uint8_t& bucket = table_->buckets[name.hash % max_entries];
  entry.older = std::exchange(bucket, static_cast<std::uint8_t>(place));
  forget_evicted();
}

/// Gives back the memory of entries that the peer has evicted.
void HpackEncoder::forget_evicted() {
  while (inserted_ - oldest_ > max_entries) ++oldest_;  // the ring has replaced them
  while (oldest_ != inserted_ && !valid(table_->entries[oldest_ % max_entries])) {
    forget(oldest_++ % max_entries);
  }
}

void HpackEncoder::forget(std::size_t place) {
  Entry& entry = table_->entries[place];
  if (entry.bytes == nullptr) return;
  std::uint8_t* link = &table_->buckets[entry.name_hash % max_entries];
  while (*link != place) link = &table_->entries[*link].older;
  *link = entry.older;
  free_pooled(entry.bytes,
              std::max<std::size_t>(std::size_t{entry.name_size} + entry.value_size, 1));
  entry.bytes = nullptr;
}

}  // namespace evenkeel
