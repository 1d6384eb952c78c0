#include "evenkeel/http/fields.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "evenkeel/base/ascii.h"
#include "evenkeel/base/pool_allocator.h"

namespace evenkeel {
namespace {

template <class Word>
bool words_match(const char* a, const char* b) {
  Word left;
  Word right;
  std::memcpy(&left, a, sizeof left);
  std::memcpy(&right, b, sizeof right);
  return (left | static_cast<Word>(0x2020202020202020u)) ==
         (right | static_cast<Word>(0x2020202020202020u));
}

/// True if a token equals `candidate` in any case. `candidate` has the same length and consists of
/// lower-case letters, digits and dashes, for which setting bit 5 folds the case of token
/// characters.
bool is_known(std::string_view name, std::string_view candidate) {
  const char* a = name.data();
  const char* b = candidate.data();
  const std::size_t size = candidate.size();
  if (size >= 8) {
    for (std::size_t at = 0; at + 8 < size; at += 8) {
      if (!words_match<std::uint64_t>(a + at, b + at)) return false;
    }
    return words_match<std::uint64_t>(a + size - 8, b + size - 8);
  }
  if (size >= 4) {
    return words_match<std::uint32_t>(a, b) &&
           words_match<std::uint32_t>(a + size - 4, b + size - 4);
  }
  return words_match<std::uint16_t>(a, b) && words_match<std::uint16_t>(a + size - 2, b + size - 2);
}

struct KnownName {
  std::string_view name;
  FieldId id;
};

constexpr KnownName known[] = {
    {"te", FieldId::te},
    {"via", FieldId::via},
    {"date", FieldId::date},
    {"host", FieldId::host},
    {"accept", FieldId::accept},
    {"cookie", FieldId::cookie},
    {"expect", FieldId::expect},
    {"server", FieldId::server},
    {"trailer", FieldId::trailer},
    {"upgrade", FieldId::upgrade},
    {"forwarded", FieldId::forwarded},
    {"connection", FieldId::connection},
    {"keep-alive", FieldId::keep_alive},
    {"user-agent", FieldId::user_agent},
    {"x-priority", FieldId::x_priority},
    {"tracestate", FieldId::tracestate},
    {"retry-after", FieldId::retry_after},
    {"traceparent", FieldId::traceparent},
    {"content-type", FieldId::content_type},
    {"x-request-id", FieldId::x_request_id},
    {"authorization", FieldId::authorization},
    {"content-length", FieldId::content_length},
    {"http2-settings", FieldId::http2_settings},
    {"x-forwarded-for", FieldId::x_forwarded_for},
    {"proxy-connection", FieldId::proxy_connection},
    {"x-forwarded-host", FieldId::x_forwarded_host},
    {"content-encoding", FieldId::content_encoding},
    {"transfer-encoding", FieldId::transfer_encoding},
    {"x-body-compressed", FieldId::x_body_compressed},
    {"x-forwarded-proto", FieldId::x_forwarded_proto},
    {"proxy-authenticate", FieldId::proxy_authenticate},
    {"proxy-authorization", FieldId::proxy_authorization},
    {"x-forwarded-client-cert", FieldId::x_forwarded_client_cert},
};
/// A perfect hash of the known names: each has a place of its own.
struct NameTable {
  struct Entry {
    std::string_view name;
    FieldId id = FieldId::other;
  };
  static constexpr std::size_t places = 64;

  std::array<Entry, places> entries{};

  /// The place by length, first and last letter; the factors are such that no two names share a
  /// place.
  static constexpr std::size_t place_of(std::string_view name) {
    const auto letter = [](char c) {
      return static_cast<std::size_t>(static_cast<unsigned char>(c | 0x20));
    };
    return (name.size() + letter(name.front()) * 12 + letter(name.back()) * 6) % places;
  }
  consteval NameTable() {
    for (const KnownName& one : known) {
      Entry& entry = entries[place_of(one.name)];
      if (!entry.name.empty()) throw "two names share a place";
      entry = {one.name, one.id};
    }
  }
};
constexpr NameTable name_table;

constexpr std::size_t max_ids = 64;

constexpr auto names_by_id = [] {
  std::array<std::string_view, max_ids> names{};
  for (const KnownName& one : known) names[static_cast<std::size_t>(one.id)] = one.name;
  return names;
}();

}  // namespace

std::string_view lower_case_name(FieldId id) { return names_by_id[static_cast<std::size_t>(id)]; }

bool equals_ignore_case(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  if (a == b) return true;  // as most often
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i] != b[i] && to_lower(a[i]) != to_lower(b[i])) return false;
  }
  return true;
}

FieldId field_id(std::string_view name) {
  if (name.empty()) return FieldId::other;
  const NameTable::Entry& entry = name_table.entries[NameTable::place_of(name)];
  if (entry.name.size() != name.size() || !is_known(name, entry.name)) return FieldId::other;
  return entry.id;
}

struct Fields::Chunk {
  Chunk* next;
  std::uint32_t used;
  std::uint32_t size;
  char* data() { return reinterpret_cast<char*>(this + 1); }
};

void Fields::free_arena(Chunk* chunk) {
  while (chunk != nullptr) {
    Chunk* const next = chunk->next;
    free_pooled(chunk, sizeof(Chunk) + chunk->size);
    chunk = next;
  }
}

/// A larger store with the same fields, in place of `store`; null: a first one.
Fields::Store* Fields::grow(Store* store) {
  const std::uint32_t capacity = store == nullptr ? 24 : store->capacity * 2;
  auto* grown = static_cast<Store*>(allocate_pooled(Store::bytes_for(capacity)));
  grown->size = 0;
  grown->capacity = capacity;
  if (store != nullptr) {
    grown->size = store->size;
    std::memcpy(static_cast<void*>(grown->items()), store->items(), store->size * sizeof(Field));
    free_pooled(store, Store::bytes_for(store->capacity));
  }
  return grown;
}

void Fields::add_copy(const Field& field) {
  add(keep(field.name()), keep(field.value()), field.id, field.never_indexed);
}

std::string_view Fields::keep(std::string_view bytes) {
  if (arena_ == nullptr || arena_->size - arena_->used < bytes.size()) {
    const std::size_t size = std::max<std::size_t>(bytes.size(), 448 - sizeof(Chunk));
    auto* chunk = static_cast<Chunk*>(allocate_pooled(sizeof(Chunk) + size));
    *chunk = {arena_, 0, static_cast<std::uint32_t>(size)};
    arena_ = chunk;
  }
  char* place = arena_->data() + arena_->used;
  if (!bytes.empty()) std::memcpy(place, bytes.data(), bytes.size());
  arena_->used += static_cast<std::uint32_t>(bytes.size());
  return {place, bytes.size()};
}

const Field* Fields::find(FieldId id) const {
  if (!has(id)) return nullptr;
  for (const Field& field : *this) {
    if (field.id == id) return &field;
  }
  return nullptr;
}

const Field* Fields::find(std::string_view name) const {
  for (const Field& field : *this) {
    if (equals_ignore_case(field.name(), name)) return &field;
  }
  return nullptr;
}

std::size_t Fields::count(FieldId id) const {
  if ((repeated_ & bit(id)) == 0) return has(id) ? 1 : 0;
  return static_cast<std::size_t>(
      std::count_if(begin(), end(), [id](const Field& field) { return field.id == id; }));
}

std::optional<std::string_view> Fields::value(FieldId id) const {
  const Field* field = find(id);
  if (field == nullptr) return std::nullopt;
  return field->value();
}

std::optional<std::string_view> Fields::value(std::string_view name) const {
  const Field* field = find(name);
  if (field == nullptr) return std::nullopt;
  return field->value();
}

void Fields::remove(FieldId id) {
  if (!has(id)) return;
  remove_if([id](const Field& field) { return field.id == id; });
}

void Fields::remove(std::string_view name) {
  const FieldId id = field_id(name);
  if (id != FieldId::other) {
    remove(id);
  } else {
    remove_if([name](const Field& field) { return equals_ignore_case(field.name(), name); });
  }
}

void Fields::clear() {
  if (store_ != nullptr) store_->size = 0;
  present_ = repeated_ = 0;
}

void Fields::rebase(const char* from, std::size_t size, const char* to) {
  const auto move = [&](const char*& place) {
    if (place >= from && place <= from + size) place = to + (place - from);
  };
  for (Field& field : *this) {
    move(field.name_begin);
    move(field.value_begin);
  }
}

}  // namespace evenkeel
