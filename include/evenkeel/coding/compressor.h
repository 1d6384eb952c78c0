// Compresses a text piece by piece.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

namespace evenkeel {

/// Thread: one.
class Compressor {
 public:
  /// What follows the bytes that are given.
  enum class Ending : std::uint8_t {
    none,    ///< more of them: what is compressed may be held back
    flush,   ///< perhaps more: all that was given can be read from what is written
    finish,  ///< nothing
  };
  enum class Status : std::uint8_t {
    more,    ///< call it again: with more bytes, or with the same ending and more room
    done,    ///< the ending is written
    failed,  ///< there is no memory
  };

  virtual ~Compressor() = default;
  /// Begins a text; what is left of the one before is dropped. `length`: its size in bytes, if it
  /// is known.
  virtual void begin(std::optional<std::uint64_t> length) = 0;
  /// Removes bytes from the front of `bytes`, and writes what they become: the first `size` bytes
  /// of `room`. All are removed unless the room is full.
  virtual Status next(std::string_view& bytes, Ending ending, std::span<char> room,
                      std::size_t& size) = 0;
};

/// Both take about 300 KiB, however long the text is. Null: there is no memory.
std::unique_ptr<Compressor> make_gzip_compressor();
std::unique_ptr<Compressor> make_zstd_compressor();

}  // namespace evenkeel
