// The bytes between the quotes of a JSON string: where they end, and what they say.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace evenkeel::json {

/// Finds the first byte of a string that needs a look: a quote, a backslash, a control character;
/// `end` if there is none. Sets `non_ascii` if there may be bytes above 0x7f before it, else leaves
/// it.
const char* find_special(const char* begin, const char* end, bool& non_ascii);

/// Checks text that comes in pieces, cut anywhere, for well-formed UTF-8 (RFC 3629).
class Utf8Check {
 public:
  /// True if the next piece, which starts at `offset`, is well-formed; otherwise see bad_at().
  bool add(std::string_view piece, std::uint64_t offset);
  /// True if the text, which ends here, ends with a whole character; otherwise see bad_at().
  bool finish();
  /// True if the text so far ends within a character.
  bool pending() const { return size_ > 0; }
  /// Offset of the first byte of the ill-formed sequence.
  std::uint64_t bad_at() const { return bad_at_; }

 private:
  bool complete_pending(std::string_view& piece);

  std::array<char, 4> bytes_{};  // the beginning of a character
  std::uint8_t size_ = 0;
  std::uint64_t begin_ = 0;  // its offset
  std::uint64_t bad_at_ = 0;
};

/// The characters at the beginning of `text` that are well-formed and fit into `max_bytes`.
std::string_view utf8_prefix(std::string_view text, std::size_t max_bytes);

/// Decodes what is between the quotes. REQUIRES: a well-formed string, of which the end may be
/// missing. A surrogate without its other half becomes U+FFFD. At most `max_bytes`, cut between two
/// characters.
std::string decode_string(std::string_view raw, std::size_t max_bytes);

}  // namespace evenkeel::json
