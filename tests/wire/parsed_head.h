// Parses heads for tests, from text that arrives in pieces.
#pragma once

#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "wire/head_parser.h"

namespace evenkeel {

/// The result of a parser, in values of its own. Of a head that is refused or incomplete it has
/// what was read of it: reports and responses name that.
struct Parsed {
  HeadParser::Step step = HeadParser::Step::more;
  Fault fault = Fault::internal;
  std::string detail;
  MessageLimit exceeded_limit = MessageLimit::none;
  bool other_protocol = false;
  std::string method;
  std::string target;
  std::string phrase;
  int status = 0;
  int minor_version = 1;
  std::vector<std::pair<std::string, std::string>> fields;
  std::size_t consumed = 0;

  bool operator==(const Parsed&) const = default;
  bool done() const { return step == HeadParser::Step::done; }
};

inline constexpr HeadLimits generous_limits{.bytes = 32 * 1024, .fields = 100, .line = 8 * 1024};

/// Appends bytes to the buffer, as a read does. REQUIRES: they fit.
inline void append(ReadBuffer& buffer, std::string_view bytes) {
  std::memcpy(buffer.free_begin(), bytes.data(), bytes.size());
  buffer.end += static_cast<std::uint32_t>(bytes.size());
}

/// Feeds `bytes` cut at the given positions. They are placed from `place` on in a block.
inline Parsed parse_in_pieces(HeadParser::Kind kind, std::string_view bytes,
                              const std::vector<std::size_t>& cuts,
                              const HeadLimits& limits = generous_limits, std::uint32_t place = 0) {
  ReadBuffer buffer;
  buffer.block = Block::take(Block::small);
  buffer.begin = buffer.end = place;
  HeadParser parser(kind, limits);
  Parsed parsed;
  std::size_t at = 0;
  for (std::size_t i = 0; i <= cuts.size() && parsed.step == HeadParser::Step::more; ++i) {
    const std::size_t upto = i < cuts.size() ? cuts[i] : bytes.size();
    while (at < upto && parsed.step == HeadParser::Step::more) {
      if (buffer.free_size() == 0) parser.grow_buffer(buffer);
      const std::size_t size = std::min<std::size_t>(upto - at, buffer.free_size());
      append(buffer, bytes.substr(at, size));
      at += size;
      parsed.step = parser.parse(buffer);
    }
  }
  if (parsed.step == HeadParser::Step::failed) {
    parsed.fault = parser.fault();
    parsed.detail = parser.detail();
    parsed.exceeded_limit = parser.exceeded_limit();
    parsed.other_protocol = parser.other_protocol();
  }
  const Head& head = parser.head();
  parsed.method = head.method;
  parsed.target = head.target;
  parsed.phrase = head.reason_phrase;
  parsed.status = head.status;
  parsed.minor_version = head.minor_version;
  for (const Field& field : head.fields) parsed.fields.emplace_back(field.name(), field.value());
  if (parsed.done()) parsed.consumed = at - buffer.bytes().size();
  return parsed;
}

/// Where to cut `bytes` so that no line has arrived whole when the parser first sees it: before the
/// last byte of each line end. Then it reads every line the strict way, and nothing else changes,
/// since all of a line's text is there.
inline std::vector<std::size_t> cuts_for_strict_way(std::string_view bytes) {
  std::vector<std::size_t> cuts;
  for (auto at = bytes.find("\r\n"); at != bytes.npos; at = bytes.find("\r\n", at + 2)) {
    cuts.push_back(at + 1);
  }
  return cuts;
}

inline Parsed parse_request(std::string_view bytes, const HeadLimits& limits = generous_limits) {
  return parse_in_pieces(HeadParser::Kind::request, bytes, {}, limits);
}
inline Parsed parse_response(std::string_view bytes, const HeadLimits& limits = generous_limits) {
  return parse_in_pieces(HeadParser::Kind::response, bytes, {}, limits);
}

/// The head of `bytes`, which live as long as the result is used. REQUIRES: it is well formed.
struct ParsedHead {
  explicit ParsedHead(HeadParser::Kind kind, std::string_view bytes)
      : parser(kind, generous_limits) {
    buffer.block = Block::take(Block::large);
    append(buffer, bytes);
    well_formed = parser.parse(buffer) == HeadParser::Step::done;
  }
  Head& head() { return parser.head(); }

  ReadBuffer buffer;
  HeadParser parser;
  bool well_formed = false;
};

}  // namespace evenkeel
