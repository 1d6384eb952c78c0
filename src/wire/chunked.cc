#include "chunked.h"

#include <bit>
#include <cstring>

#include "evenkeel/base/hex.h"
#include "head_parser.h"
#include "message_rules.h"
#include "text_scan.h"

namespace evenkeel {
namespace {

constexpr std::uint32_t max_extension_bytes = 256;
constexpr std::uint32_t max_extension_total = 4096;
constexpr std::size_t max_trailer_bytes = 8192;
constexpr std::size_t max_trailer_fields = 64;
constexpr unsigned max_digits = 16;

}  // namespace

bool ChunkedDecoder::fail(const char* detail) {
  detail_ = detail;
  return false;
}

/// Takes a byte that is not of a payload.
bool ChunkedDecoder::step(char c) {
  switch (state_) {
    case State::data_cr:
      state_ = State::data_lf;
      return c == '\r' || fail("a chunk is longer than its size");
    case State::data_lf:
      state_ = State::size_start;
      return c == '\n' || fail("a chunk is longer than its size");
    case State::trailer_line:
    case State::trailer_lf: return step_trailer(c);
    default: return step_size_line(c);
  }
}

bool ChunkedDecoder::step_size_line(char c) {
  switch (state_) {
    case State::size_start:
    case State::size: {
      const int digit = hex_value(c);
      if (digit >= 0) {
        if (++digits_ > max_digits || left_ >> 60 != 0) return fail("chunk size too large");
        left_ = left_ * 16 + static_cast<unsigned>(digit);
        state_ = State::size;
        return true;
      }
      if (state_ == State::size_start) return fail("bad chunk size");
      if (left_ >> 62 != 0) return fail("chunk size too large");
      if (c == '\r') return state_ = State::size_lf, true;
      if (c == ';') return state_ = State::extension_name_start, true;
      return fail("bad chunk size");
    }
    case State::size_lf:
      if (c != '\n') return fail("bad chunk size line");
      digits_ = 0;
      extension_bytes_ = 0;
      state_ = left_ == 0 ? State::trailer_line : State::data;
      return true;
    default: return step_extension(c);
  }
}

/// Takes a byte of a chunk extension: ;name[=token|="quoted"]
bool ChunkedDecoder::step_extension(char c) {
  ++extension_total_;
  if (++extension_bytes_ > max_extension_bytes || extension_total_ > max_extension_total) {
    return fail("chunk extensions too large");
  }
  switch (state_) {
    case State::extension_name_start:
      if (!is(c, token_char)) return fail("bad chunk extension");
      return state_ = State::extension_name, true;
    case State::extension_name:
      if (is(c, token_char)) return true;
      if (c == '=') return state_ = State::extension_value_start, true;
      break;
    case State::extension_value_start:
      if (c == '"') return state_ = State::extension_quoted, true;
      if (is(c, token_char)) return state_ = State::extension_token, true;
      return fail("bad chunk extension");
    case State::extension_token:
      if (is(c, token_char)) return true;
      break;
    case State::extension_quoted:
      if (c == '"') return state_ = State::extension_after, true;
      if (c == '\\') return state_ = State::extension_escaped, true;
      return is(c, value_char) || fail("bad chunk extension");
    case State::extension_escaped:
      state_ = State::extension_quoted;
      return is(c, value_char) || fail("bad chunk extension");
    default: break;
  }
  if (c == ';') return state_ = State::extension_name_start, true;
  if (c == '\r') return state_ = State::size_lf, true;
  return fail("bad chunk extension");
}

bool ChunkedDecoder::step_trailer(char c) {
  if (++trailer_bytes_ > max_trailer_bytes) return fail("trailers too large");
  if (state_ == State::trailer_lf) {
    if (c != '\n') return fail("bad trailer line");
    return end_trailer_line();
  }
  if (c == '\r') return state_ = State::trailer_lf, true;
  if (c == '\n') return fail("a trailer line ends without CR");
  line_ += c;
  return true;
}

bool ChunkedDecoder::end_trailer_line() {
  if (line_.empty()) return state_ = State::complete, true;
  std::string_view name;
  std::string_view value;
  if (!is_field_text(line_) || !split_field_line(line_, name, value)) {
    return fail("bad trailer field");
  }
  if (trailers_.size() == max_trailer_fields) return fail("too many trailer fields");
  if (!is_forbidden_in_trailers(name)) trailers_.add_copy(name, value);
  line_.clear();
  state_ = State::trailer_line;
  return true;
}

ChunkedDecoder::Decoded ChunkedDecoder::decode(char* bytes, std::size_t size) {
  std::size_t at = 0;
  char* payload = nullptr;
  std::size_t payload_size = 0;
  const auto result = [&](Step step) {
    return Decoded{step, {payload == nullptr ? bytes : payload, payload_size}, at};
  };

  while (at < size && state_ != State::complete) {
    if (state_ != State::data) {
      if (!step(bytes[at])) return result(Step::failed);
      ++at;
      continue;
    }
    const auto take = static_cast<std::size_t>(std::min<std::uint64_t>(left_, size - at));
    if (payload == nullptr) {
      payload = bytes + at;
    } else {
      std::memmove(payload + payload_size, bytes + at, take);
    }
    payload_size += take;
    at += take;
    left_ -= take;
    if (left_ == 0) state_ = State::data_cr;
  }
  return result(state_ == State::complete ? Step::done : Step::more);
}

std::size_t write_chunk_size(char* out, std::size_t payload) {
  constexpr char digits[] = "0123456789abcdef";
  const unsigned width =
      payload == 0 ? 1 : (static_cast<unsigned>(std::bit_width(payload)) + 3) / 4;
  for (unsigned i = 0; i < width; ++i) {
    out[width - 1 - i] = digits[payload & 15];
    payload >>= 4;
  }
  out[width] = '\r';
  out[width + 1] = '\n';
  return width + 2;
}

}  // namespace evenkeel
