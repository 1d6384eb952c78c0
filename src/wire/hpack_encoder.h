// Encodes header sections with HPACK (RFC 7541).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "evenkeel/base/pool_allocator.h"
#include "evenkeel/http/fields.h"

namespace evenkeel {

/// The encoder of one connection. Its dynamic table gets values that are sent a second time, and
/// names that HPACK's static table lacks, with their first value: further values that never repeat
/// do not push out those that do.
/// Strings are not Huffman-coded. No I/O.
class HpackEncoder {
 public:
  /// The size of the dynamic table; also the initial limit of every peer.
  static constexpr std::uint32_t max_table_bytes = 4096;

  HpackEncoder() = default;
  HpackEncoder(const HpackEncoder&) = delete;
  HpackEncoder& operator=(const HpackEncoder&) = delete;
  ~HpackEncoder();

  /// The peer's SETTINGS_HEADER_TABLE_SIZE: every value in turn, also of one frame.
  void limit_table(std::uint32_t bytes);

  /// The most bytes that `encode` writes.
  static std::size_t max_bytes(const Fields& section);
  /// Writes a header block and returns its end. Names may have capitals, which are lowered.
  /// REQUIRES: the peer gets the blocks in this order, all of them.
  char* encode(const Fields& section, char* out);

 private:
  static constexpr std::size_t max_entries =
      64;  // the newest; older ones are no longer referred to
  static constexpr std::uint8_t none = 0xff;

  struct Entry {
    char* bytes = nullptr;  // the name in lower case, then the value; null: unused
    std::uint32_t name_hash = 0;
    std::uint32_t number = 0;  // how many were inserted before it,
    std::uint32_t begin = 0;   // and their size
    std::uint16_t name_size = 0;
    std::uint16_t value_size = 0;
    std::uint8_t older = none;  // the next one with this bucket

    std::string_view name() const { return {bytes, name_size}; }
    std::string_view value() const { return {bytes + name_size, value_size}; }
  };
  struct Table : Pooled {
    Table() { buckets.fill(none); }
    std::array<Entry, max_entries> entries;         // a ring
    std::array<std::uint8_t, max_entries> buckets;  // by `name_hash`: the newest entry
    std::array<std::uint32_t, 64> seen{};           // hashes of values that were sent once
  };
  /// Where a field is in the table.
  struct Match {
    std::uint32_t exact = 0;  // the index of the field; 0: none
    std::uint32_t name = 0;   // the index of one with its name
  };
  struct Name {
    std::string_view text;
    std::uint32_t hash;
  };

  char* announce_size(char* out);
  char* encode_pseudo(const Field& field, char* out);
  char* encode_field(const Field& field, char* out);
  char* encode_repeating(const Name& name, std::uint32_t static_index, std::string_view value,
                         char* out);
  Match find(const Name& name, std::string_view value) const;
  bool seen_before(std::uint32_t hash);
  bool fits(const Name& name, std::string_view value) const;
  void insert(const Name& name, std::string_view value);
  void forget(std::size_t place);
  void forget_evicted();
  bool valid(const Entry& entry) const {
    return entry.bytes != nullptr && inserted_bytes_ - entry.begin <= table_bytes_;
  }
  std::uint32_t index_of(const Entry& entry) const;

  std::unique_ptr<Table> table_;
  std::uint32_t table_bytes_ = max_table_bytes;
  std::uint32_t announced_bytes_ = max_table_bytes;  // the size that the peer knows
  std::uint32_t lowest_bytes_ = max_table_bytes;     // since the last block
  std::uint32_t inserted_ = 0;
  std::uint32_t oldest_ = 0;          // number of the oldest entry that may be in the table
  std::uint32_t inserted_bytes_ = 0;  // as HPACK counts them
};

}  // namespace evenkeel
