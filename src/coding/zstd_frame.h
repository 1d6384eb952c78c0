// The parts of a frame of zstd (RFC 8878, section 3.1): where each ends.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace evenkeel::zstd {

/// The header of a frame, which may come in pieces.
class FrameHeader {
 public:
  /// Removes its bytes from the front of `bytes`. True: it is complete, or begins no frame.
  bool read(std::string_view& bytes) {
    while (size_ < expected_size() && !bytes.empty()) {
      bytes_[size_++] = static_cast<unsigned char>(bytes.front());
      bytes.remove_prefix(1);
      if (size_ == magic_size && !begins_a_frame()) return true;
    }
    return size_ == expected_size();
  }
  bool empty() const { return size_ == 0; }
  std::span<const unsigned char> bytes() const { return {bytes_.data(), size_}; }
  void clear() { size_ = 0; }

  // True if the bytes begin a frame. REQUIRES, as what follows: `read` has returned true.
  bool begins_a_frame() const { return has_magic({0x28, 0xb5, 0x2f, 0xfd}, 0xff) || skippable(); }
  /// True if the frame has no text.
  bool skippable() const { return has_magic({0x50, 0x2a, 0x4d, 0x18}, 0xf0); }
  /// The content of a skippable frame, in bytes.
  std::uint32_t skipped_bytes() const {
    return std::uint32_t{bytes_[4]} | std::uint32_t{bytes_[5]} << 8 |
           std::uint32_t{bytes_[6]} << 16 | std::uint32_t{bytes_[7]} << 24;
  }
  bool has_checksum() const { return (bytes_[magic_size] & 4) != 0; }

 private:
  static constexpr std::size_t magic_size = 4;

  bool has_magic(std::array<unsigned char, magic_size> magic, unsigned char mask) const {
    return (bytes_[0] & mask) == magic[0] && bytes_[1] == magic[1] && bytes_[2] == magic[2] &&
           bytes_[3] == magic[3];
  }

  /// The size of the header, as far as it is known.
  std::size_t expected_size() const {
    if (size_ < magic_size) return magic_size;
    if (skippable()) return magic_size + 4;
    if (size_ == magic_size) return magic_size + 1;
    constexpr std::array<std::size_t, 4> dictionary_id = {0, 1, 2, 4};
    constexpr std::array<std::size_t, 4> content_size = {0, 2, 4, 8};
    const unsigned descriptor = bytes_[magic_size];
    const bool single_segment = (descriptor & 0x20) != 0;
    const std::size_t content = content_size[descriptor >> 6];
    const std::size_t window_or_small_content = !single_segment || content == 0 ? 1 : 0;
    return magic_size + 1 + window_or_small_content + dictionary_id[descriptor & 3] + content;
  }

  std::array<unsigned char, 18> bytes_{};
  std::size_t size_ = 0;
};

/// Follows a frame behind its header: the headers and the contents of its blocks, its checksum.
class FrameParts {
 public:
  void begin(const FrameHeader& header) {
    has_checksum_ = !header.skippable() && header.has_checksum();
    if (header.skippable()) {
      to(Part::other, header.skipped_bytes());
    } else {
      to(Part::block_header, block_header_size);
    }
  }
  /// Bytes to the end of the part that comes.
  std::size_t left() const { return left_; }
  /// REQUIRES: at most `left()` bytes.
  void pass(std::string_view bytes) {
    if (part_ == Part::block_header) {
      for (const char c : bytes)
        block_header_ = block_header_ >> 8 | static_cast<unsigned>(static_cast<unsigned char>(c))
                                                 << 16;
    }
    left_ -= bytes.size();
    if (left_ == 0 && !bytes.empty()) end_part();
  }

 private:
  /// Text that is not compressed is given out as it comes: only its last byte, which can show that
  /// the frame is damaged, is a part of its own.
  enum class Part : std::uint8_t { block_header, raw_content, content, other };
  static constexpr std::size_t block_header_size = 3;
  static constexpr std::size_t checksum_size = 4;

  void to(Part part, std::size_t size) {
    part_ = part;
    left_ = size;
  }
  void end_part() {
    switch (part_) {
      case Part::block_header: begin_content(); break;
      case Part::raw_content: to(Part::content, 1); break;
      case Part::content: end_block(); break;
      case Part::other: break;
    }
  }
  void begin_content() {
    constexpr unsigned raw = 0;
    constexpr unsigned repeated_byte = 1;
    const unsigned type = block_header_ >> 1 & 3;
    const std::size_t size = type == repeated_byte ? 1 : block_header_ >> 3;
    if (size == 0) {
      end_block();
    } else if (type == raw && size > 1) {
      to(Part::raw_content, size - 1);
    } else {
      to(Part::content, size);
    }
  }
  void end_block() {
    const bool last = (block_header_ & 1) != 0;
    if (last) {
      to(Part::other, has_checksum_ ? checksum_size : 0);
    } else {
      to(Part::block_header, block_header_size);
    }
  }

  Part part_ = Part::other;
  std::size_t left_ = 0;
  unsigned block_header_ = 0;  // the last three bytes of one, in little endian
  bool has_checksum_ = false;
};

}  // namespace evenkeel::zstd
