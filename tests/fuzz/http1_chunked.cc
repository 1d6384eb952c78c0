// Chunked decoder. Properties: the result does not depend on how the bytes are split, and Beast's
// parser reads everything that it accepts in the same way.
#include <algorithm>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <cstdint>
#include <string>
#include <string_view>

#include "beast.h"
#include "require.h"
#include "wire/chunked.h"

namespace {

namespace beast = boost::beast;
using evenkeel::ChunkedDecoder;

/// Result of decoding some bytes.
struct ParseResult {
  ChunkedDecoder::Step step = ChunkedDecoder::Step::more;
  std::size_t consumed = 0;
  std::string payload;
  std::size_t trailers = 0;

  bool operator==(const ParseResult&) const = default;
};

/// Feeds the bytes `piece` at a time.
ParseResult decode(std::string_view bytes, std::size_t piece) {
  ChunkedDecoder decoder;
  ParseResult result;
  while (result.step == ChunkedDecoder::Step::more && !bytes.empty()) {
    std::string read(bytes.substr(0, piece));
    const auto decoded = decoder.decode(read.data(), read.size());
    require(decoded.consumed <= read.size(), "consumes no more than the input");
    result.step = decoded.step;
    if (decoded.step == ChunkedDecoder::Step::failed) return {.step = decoded.step};
    result.payload += decoded.payload;
    result.consumed += decoded.consumed;
    require(decoded.step == ChunkedDecoder::Step::done || decoded.consumed == read.size(),
            "all is consumed before the end");
    bytes.remove_prefix(read.size());
  }
  result.trailers = decoder.trailers().size();
  return result;
}

void compare_with_beast(const ParseResult& ours, std::string_view bytes) {
  beast::http::parser<false, beast::http::string_body> parser;
  parser.header_limit(64 * 1024);
  beast::error_code error;
  const std::string message = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" +
                              std::string(bytes.substr(0, ours.consumed));
  std::string_view left = message;
  while (!error && !left.empty() && !parser.is_done()) {
    const auto taken = parser.put(boost::asio::buffer(left), error);
    if (error == beast::http::error::need_more && taken > 0) error = {};
    left.remove_prefix(taken);
  }
  if (is_framing_error(error)) return;  // in a trailer, where we drop it
  require(!error, "Beast reads what we let through");
  require(parser.is_done() && left.empty(), "Beast sees the end where we do");
  require(parser.get().body() == ours.payload, "the same payload");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const auto whole = decode(bytes, std::max<std::size_t>(bytes.size(), 1));
  require(whole == decode(bytes, 1), "one byte at a time gives the same result");
  require(whole == decode(bytes, 5), "five bytes at a time give the same result");
  if (whole.step == ChunkedDecoder::Step::done) compare_with_beast(whole, bytes);
  return 0;
}
