// Header fields and trailers: a flat list of names and values in the order of arrival.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

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

/// Equal apart from ASCII case.
bool equals_ignore_case(std::string_view a, std::string_view b);

/// One field; a view (see Fields).
struct Field {
  const char* name_begin = nullptr;
  const char* value_begin = nullptr;
  std::uint32_t value_size = 0;
  std::uint16_t name_size = 0;
  FieldId id = FieldId::other;

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
        present_(std::exchange(other.present_, 0)) {}
  Fields& operator=(Fields&& other) noexcept {
    std::swap(store_, other.store_);
    std::swap(arena_, other.arena_);
    std::swap(present_, other.present_);
    return *this;
  }
  ~Fields();

  void add(std::string_view name, std::string_view value) { add(name, value, field_id(name)); }
  void add(std::string_view name, std::string_view value, FieldId id);
  void add_copy(std::string_view name, std::string_view value) { add(keep(name), keep(value)); }
  /// A copy of `bytes` that lives as long as this list.
  std::string_view keep(std::string_view bytes);

  std::size_t size() const;
  const Field* begin() const;
  const Field* end() const;
  Field* begin();
  Field* end();

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
    Field* kept = begin();
    std::uint64_t present = 0;
    for (Field* field = begin(); field != end(); ++field) {
      if (drop(std::as_const(*field))) continue;
      present |= bit(field->id);
      *kept++ = *field;
    }
    shrink(static_cast<std::size_t>(kept - begin()), present);
  }
  /// Removes every field with that id or name.
  void remove(FieldId id);
  void remove(std::string_view name);
  void clear();

  /// Adjusts every view into [from, from + size) after those bytes moved to `to`.
  void rebase(const char* from, std::size_t size, const char* to);

 private:
  struct Store;
  struct Chunk;
  static constexpr std::uint64_t bit(FieldId id) {
    return std::uint64_t{1} << static_cast<unsigned>(id);
  }
  void shrink(std::size_t size, std::uint64_t present);

  Store* store_ = nullptr;
  Chunk* arena_ = nullptr;
  std::uint64_t present_ = 0;
};

}  // namespace evenkeel
