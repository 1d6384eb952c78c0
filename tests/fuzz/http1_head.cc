// Head parser. Properties: what it takes in one pass it reads the same in the strict way; the
// result does not depend on how the bytes are split; and Beast's parser reads everything that it
// accepts in the same way.
#include <algorithm>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/parser.hpp>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "beast.h"
#include "require.h"
#include "wire/head_parser.h"
#include "wire/parsed_head.h"

namespace {

namespace beast = boost::beast;
using evenkeel::Block;
using evenkeel::HeadLimits;
using evenkeel::HeadParser;
using evenkeel::Parsed;

constexpr std::size_t max_input_bytes = Block::small;
constexpr HeadLimits limits{.bytes = max_input_bytes, .fields = 64, .line = 4096};

/// Feeds the bytes `piece` at a time.
Parsed parse(HeadParser::Kind kind, std::string_view bytes, std::size_t piece) {
  std::vector<std::size_t> cuts;
  for (std::size_t at = piece; at < bytes.size(); at += piece) cuts.push_back(at);
  return evenkeel::parse_in_pieces(kind, bytes, cuts, limits);
}

/// Parses whole lines, at the end of a block, in one pass and in the strict way.
void compare_ways(HeadParser::Kind kind, std::string_view bytes, const HeadLimits& head_limits) {
  if (bytes.size() > Block::small) return;
  const auto at_end = static_cast<std::uint32_t>(Block::small - bytes.size());
  const Parsed usual = evenkeel::parse_in_pieces(kind, bytes, {}, head_limits, at_end);
  const auto cuts = evenkeel::cuts_for_strict_way(bytes);
  require(usual == evenkeel::parse_in_pieces(kind, bytes, cuts, head_limits),
          "the strict way gives the same result");
}

/// Whether two heads are read alike. Of those that are refused, several rules may be broken, and
/// which one is found first depends on what has arrived.
bool alike(const Parsed& a, const Parsed& b) {
  return a == b || (a.step == HeadParser::Step::failed && a.step == b.step);
}

bool names_connection(const Parsed& result) {
  return std::any_of(result.fields.begin(), result.fields.end(), [](const auto& field) {
    return evenkeel::equals_ignore_case(field.first, "connection") ||
           evenkeel::equals_ignore_case(field.first, "proxy-connection");
  });
}

template <bool is_request>
void compare_with_beast(const Parsed& ours, std::string_view bytes) {
  // Beast accepts neither an empty line before a request nor a status line without a phrase.
  if (bytes.starts_with("\r\n")) bytes.remove_prefix(2);
  if (!is_request && bytes.substr(12, 1) == "\r") return;

  beast::http::parser<is_request, beast::http::empty_body> parser;
  parser.header_limit(static_cast<std::uint32_t>(max_input_bytes));
  parser.skip(true);
  beast::error_code error;
  auto head = bytes.substr(0, ours.consumed);
  while (!error && !head.empty() && !parser.is_header_done()) {
    const auto taken = parser.put(boost::asio::buffer(head), error);
    if (!error) head.remove_prefix(taken);
    if (taken == 0) break;
  }
  // We check Connection and the framing later.
  if (is_framing_error(error) ||
      (error == beast::http::error::bad_value && names_connection(ours))) {
    return;
  }
  require(!error, "Beast reads what we let through");
  require(parser.is_header_done(), "Beast sees the end of the head where we do");

  const auto& theirs = parser.get();
  if constexpr (is_request) {
    require(theirs.method_string() == ours.method, "the same method");
    require(theirs.target() == ours.target, "the same target");
  } else {
    require(static_cast<int>(theirs.result_int()) == ours.status, "the same status");
  }
  require(static_cast<int>(theirs.version()) == 10 + ours.minor_version, "the same version");
  std::vector<std::pair<std::string, std::string>> fields;
  for (const auto& field : theirs) fields.emplace_back(field.name_string(), field.value());
  // Beast keeps fields of one name together.
  auto expected = ours.fields;
  std::sort(expected.begin(), expected.end());
  std::sort(fields.begin(), fields.end());
  require(fields == expected, "the same fields");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  for (const auto kind : {HeadParser::Kind::request, HeadParser::Kind::response}) {
    const std::size_t most = bytes.size() - bytes.size() / 4;
    compare_ways(kind, bytes, limits);
    compare_ways(kind, bytes, {.bytes = most, .fields = limits.fields, .line = limits.line});
    compare_ways(kind, bytes, {.bytes = limits.bytes, .fields = 3, .line = 24});
    const Parsed whole = parse(kind, bytes, bytes.size());
    require(alike(whole, parse(kind, bytes, 1)), "one byte at a time gives the same result");
    require(alike(whole, parse(kind, bytes, 7)), "seven bytes at a time give the same result");
    if (whole.step != HeadParser::Step::done) continue;
    if (kind == HeadParser::Kind::request) {
      compare_with_beast<true>(whole, bytes);
    } else {
      compare_with_beast<false>(whole, bytes);
    }
  }
  return 0;
}
