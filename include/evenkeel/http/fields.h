// Header fields and trailers: a flat list of names and values in the order of arrival.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

#include "evenkeel/base/pool_allocator.h"

namespace evenkeel {

/// Names that evenkeel itself reads. The id is found while parsing, so that a look-up compares one
/// number.
enum class FieldId : std::uint8_t {
  other,
  accept,
  authorization,
  connection,
  content_encoding,
  content_length,
  content_type,
  cookie,
  date,
  expect,
  forwarded,
  host,
  http2_settings,
  keep_alive,
  proxy_authenticate,
  proxy_authorization,
  proxy_connection,
  retry_after,
  server,
  te,
  traceparent,
  tracestate,
  trailer,
  transfer_encoding,
  upgrade,
  user_agent,
  via,
  x_body_compressed,
  x_forwarded_client_cert,
  x_forwarded_for,
  x_forwarded_host,
  x_forwarded_proto,
  x_priority,
  x_request_id,
};

/// The id of a name in any case.
FieldId field_id(std::string_view name);

/// The name of an id in lower case; empty for `other`.
std::string_view lower_case_name(FieldId id);

/// True if equal apart from ASCII case.
bool equals_ignore_case(std::string_view a, std::string_view b);
inline bool starts_with_ignore_case(std::string_view text, std::string_view prefix) {
  return equals_ignore_case(text.substr(0, prefix.size()), prefix);
}

/// One field; a view (see Fields).
struct Field {
  const char* name_begin = nullptr;
  const char* value_begin = nullptr;
  std::uint32_t value_size = 0;
  std::uint16_t name_size = 0;
  FieldId id = FieldId::other;
  /// True if the field arrived as never indexed: no hop may add it to an HPACK table (RFC 7541,
  /// section 6.2.3).
  bool never_indexed = false;

  std::string_view name() const { return {name_begin, name_size}; }
  std::string_view value() const { return {value_begin, value_size}; }
};

/// An ordered list of fields. `add` stores views, whose bytes must outlive the list: a parser's are
/// in the connection's read buffer, which stays until the exchange ends. `add_copy` and `keep` copy
/// into the list's own storage. Memory comes from the thread's free lists.
class Fields {
 public:
  Fields() = default;
  Fields(Fields&& other) noexcept
      : store_(std::exchange(other.store_, nullptr)),
        arena_(std::exchange(other.arena_, nullptr)),
        present_(std::exchange(other.present_, 0)),
        repeated_(std::exchange(other.repeated_, 0)) {}
  Fields& operator=(Fields&& other) noexcept {
    std::swap(store_, other.store_);
    std::swap(arena_, other.arena_);
    std::swap(present_, other.present_);
    std::swap(repeated_, other.repeated_);
    return *this;
  }
  ~Fields() {
    if (store_ != nullptr) free_pooled(store_, Store::bytes_for(store_->capacity));
    if (arena_ != nullptr) free_arena(arena_);
  }

  void add(std::string_view name, std::string_view value) { add(name, value, field_id(name)); }
  void add(std::string_view name, std::string_view value, FieldId id, bool never_indexed = false) {
    if (store_ == nullptr || store_->size == store_->capacity) [[unlikely]]
      store_ = grow(store_);
    Field& field = store_->items()[store_->size++];
    field.name_begin = name.data();
    field.value_begin = value.data();
    field.value_size = static_cast<std::uint32_t>(value.size());
    field.name_size = static_cast<std::uint16_t>(name.size());
    field.id = id;
    field.never_indexed = never_indexed;
    repeated_ |= present_ & bit(id);
    present_ |= bit(id);
  }
  void add(const Field& field) { add(field.name(), field.value(), field.id, field.never_indexed); }
  void add_copy(std::string_view name, std::string_view value) { add(keep(name), keep(value)); }
  void add_copy(const Field& field);
  /// A copy of `bytes` that lives as long as this list.
  std::string_view keep(std::string_view bytes);

  std::size_t size() const { return store_ == nullptr ? 0 : store_->size; }
  const Field* begin() const { return store_ == nullptr ? nullptr : store_->items(); }
  const Field* end() const { return begin() + size(); }
  Field* begin() { return store_ == nullptr ? nullptr : store_->items(); }
  Field* end() { return begin() + size(); }

  /// The first field with that name, or null.
  const Field* find(FieldId id) const;
  const Field* find(std::string_view name) const;
  bool has(FieldId id) const { return (present_ & bit(id)) != 0; }
  /// How many fields have that id.
  std::size_t count(FieldId id) const;
  /// The value of the first field with that name.
  std::optional<std::string_view> value(FieldId id) const;
  std::optional<std::string_view> value(std::string_view name) const;

  /// Removes the fields for which `drop(field)` is true, in one pass.
  template <class Drop>
  void remove_if(Drop drop) {
    if (store_ == nullptr) return;
    Field* const first = store_->items();
    Field* const last = first + store_->size;
    Field* kept = first;
    std::uint64_t present = 0;
    std::uint64_t repeated = 0;
    for (Field* field = first; field != last; ++field) {
      if (drop(std::as_const(*field))) continue;
      repeated |= present & bit(field->id);
      present |= bit(field->id);
      if (kept != field) *kept = *field;
      ++kept;
    }
    store_->size = static_cast<std::uint32_t>(kept - first);
    present_ = present;
    repeated_ = repeated;
  }
  /// Removes every field with that id or name.
  void remove(FieldId id);
  void remove(std::string_view name);
  void clear();

  /// Adjusts every view into [from, from + size) after those bytes moved to `to`.
  void rebase(const char* from, std::size_t size, const char* to);

 private:
  /// The head of a block that holds `capacity` fields behind it.
  struct Store {
    std::uint32_t size;
    std::uint32_t capacity;
    Field* items() { return reinterpret_cast<Field*>(this + 1); }
    static std::size_t bytes_for(std::uint32_t capacity) {
      return sizeof(Store) + capacity * sizeof(Field);
    }
  };
  struct Chunk;
  static constexpr std::uint64_t bit(FieldId id) {
    return std::uint64_t{1} << static_cast<unsigned>(id);
  }
  [[gnu::noinline]] static Store* grow(Store* store);
  static void free_arena(Chunk* chunk);

  Store* store_ = nullptr;
  Chunk* arena_ = nullptr;
  std::uint64_t present_ = 0;   // a bit for each id that a field has
  std::uint64_t repeated_ = 0;  // a bit for each id that several fields have
};

}  // namespace evenkeel
