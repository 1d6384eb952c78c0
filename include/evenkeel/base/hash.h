// The one hash function: XXH3. It is not cryptographic: who knows the seed may undo it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace evenkeel {

/// The same bytes give the same hash in every process and on every machine.
std::uint64_t hash_of(std::string_view bytes);

/// 128 bits: they differ for different bytes, unless those were chosen for a known seed.
struct WideHash {
  std::uint64_t low = 0;
  std::uint64_t high = 0;
  bool operator==(const WideHash&) const = default;
};
WideHash wide_hash_of(std::string_view bytes, std::uint64_t seed);

/// A wide hash of a stream of bytes, which may come in any pieces.
class WideHasher {
 public:
  explicit WideHasher(std::uint64_t seed);
  WideHasher(const WideHasher&) = delete;
  WideHasher& operator=(const WideHasher&) = delete;

  void add(std::string_view bytes);
  WideHash value() const;

 private:
  alignas(64) std::array<std::byte, 576> state_;  // NOLINT(*-member-init): of the library
};

/// A hash of two hashes, in this order.
std::uint64_t hash_of(std::uint64_t first, std::uint64_t second);

/// Hashes a stream of bytes, which may come in any pieces, in blocks: the hash of each block covers
/// all that precedes its end.
class BlockHash {
 public:
  static constexpr std::size_t block_bytes = 1024;

  /// The next bytes. Appends the hash of each block that they complete to `blocks`, which grows to
  /// `max_blocks` at most.
  void add(std::string_view bytes, std::vector<std::uint64_t>& blocks, std::size_t max_blocks);
  void add(std::string_view bytes);
  void reset();
  /// The hash of all bytes so far, those behind the last whole block included; 0 if there were
  /// none.
  std::uint64_t value() const;

 private:
  void add_block(const char* block);

  std::uint64_t chain_ = 0;  // of the whole blocks
  std::size_t partial_bytes_ = 0;
  std::array<char, block_bytes> partial_;  // NOLINT(*-member-init): written before it is read
};

}  // namespace evenkeel
