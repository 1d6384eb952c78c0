// Head parser. Properties: the result does not depend on how the bytes are split, and Beast's
// parser reads everything that it accepts in the same way.
#include <algorithm>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/parser.hpp>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "beast.h"
#include "require.h"
#include "wire/head_parser.h"

namespace {

namespace beast = boost::beast;
using evenkeel::HeadParser;

constexpr std::size_t max_input_bytes = evenkeel::Block::small;
constexpr evenkeel::HeadLimits limits{.bytes = max_input_bytes, .fields = 64, .line = 4096};

/// Result of parsing some bytes.
struct ParseResult {
  HeadParser::Step step = HeadParser::Step::more;
  std::size_t consumed = 0;
  std::string method;
  std::string target;
  std::string phrase;
  int status = 0;
  int minor_version = 1;
  std::vector<std::pair<std::string, std::string>> fields;

  bool operator==(const ParseResult&) const = default;
};

/// Feeds the bytes `piece` at a time.
ParseResult parse(HeadParser::Kind kind, std::string_view bytes, std::size_t piece) {
  evenkeel::ReadBuffer buffer;
  buffer.block = evenkeel::Block::take(evenkeel::Block::small);
  HeadParser parser(kind, limits);
  ParseResult result;
  while (result.step == HeadParser::Step::more && !bytes.empty()) {
    const auto size = std::min({piece, bytes.size(), std::size_t{buffer.free_size()}});
    if (size == 0) break;
    std::memcpy(buffer.free_begin(), bytes.data(), size);
    buffer.end += static_cast<std::uint32_t>(size);
    bytes.remove_prefix(size);
    result.step = parser.parse(buffer);
  }
  if (result.step != HeadParser::Step::done) return result;

  const auto& head = parser.head();
  result.consumed = buffer.begin;
  result.method = head.method;
  result.target = head.target;
  result.phrase = head.reason_phrase;
  result.status = head.status;
  result.minor_version = head.minor_version;
  for (const auto& field : head.fields) result.fields.emplace_back(field.name(), field.value());
  return result;
}

bool names_connection(const ParseResult& result) {
  return std::any_of(result.fields.begin(), result.fields.end(), [](const auto& field) {
    return evenkeel::equals_ignore_case(field.first, "connection") ||
           evenkeel::equals_ignore_case(field.first, "proxy-connection");
  });
}

template <bool is_request>
void compare_with_beast(const ParseResult& ours, std::string_view bytes) {
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
    const auto whole = parse(kind, bytes, bytes.size());
    require(whole == parse(kind, bytes, 1), "one byte at a time gives the same result");
    require(whole == parse(kind, bytes, 7), "seven bytes at a time give the same result");
    if (whole.step != HeadParser::Step::done) continue;
    if (kind == HeadParser::Kind::request) {
      compare_with_beast<true>(whole, bytes);
    } else {
      compare_with_beast<false>(whole, bytes);
    }
  }
  return 0;
}
