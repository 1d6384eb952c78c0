// Message validation. Properties: a message that is accepted is written in a form that Beast's
// parser reads in the same way, including framing; our own parser accepts that form and writes it
// unchanged.
#include <algorithm>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/parser.hpp>
#include <cstdint>
#include <cstring>
#include <string>

#include "beast.h"
#include "require.h"
#include "wire/http1_message.h"

namespace {

namespace beast = boost::beast;
using evenkeel::Framing;
using evenkeel::HeadParser;

constexpr evenkeel::HeadLimits limits{.bytes = 16 * 1024, .fields = 64, .line = 4096};
constexpr evenkeel::HeadLimits relaxed_limits{.bytes = 32 * 1024, .fields = 80, .line = 4096};
constexpr std::string_view methods[] = {"GET", "HEAD", "POST"};

/// What was written for some input; empty if it was refused.
struct RewrittenHead {
  std::string head;
  Framing framing;
  std::string method;
  std::string path;
  int status = 0;
};

bool parse(HeadParser& parser, evenkeel::ReadBuffer& buffer, std::string_view bytes) {
  buffer.block = evenkeel::Block::take(evenkeel::Block::large);
  const std::size_t size = std::min<std::size_t>(bytes.size(), buffer.free_size());
  std::memcpy(buffer.free_begin(), bytes.data(), size);
  buffer.end = static_cast<std::uint32_t>(size);
  return parser.parse(buffer) == HeadParser::Step::done;
}

RewrittenHead rewrite_request(std::string_view bytes, const evenkeel::HeadLimits& within = limits) {
  evenkeel::ReadBuffer buffer;
  HeadParser parser(HeadParser::Kind::request, within);
  evenkeel::Request request;
  evenkeel::Http1MessageInfo message_info;
  if (!parse(parser, buffer, bytes)) return {};
  if (evenkeel::accept_request(parser.head(), request, message_info)) return {};
  auto& out = evenkeel::HeadWriter::scratch();
  evenkeel::write_request_head(out, request, message_info.framing);
  return {.head = std::string(out.written()),
          .framing = message_info.framing,
          .method = std::string(request.method),
          .path = std::string(request.path)};
}

RewrittenHead rewrite_response(std::string_view bytes, std::string_view method,
                               const evenkeel::HeadLimits& within = limits) {
  evenkeel::ReadBuffer buffer;
  HeadParser parser(HeadParser::Kind::response, within);
  evenkeel::Response response;
  evenkeel::Http1MessageInfo message_info;
  if (!parse(parser, buffer, bytes)) return {};
  if (evenkeel::accept_response(parser.head(), method, response, message_info)) return {};
  auto& out = evenkeel::HeadWriter::scratch();
  evenkeel::write_response_head(out, response, message_info.framing, !message_info.keep_alive, 1);
  return {.head = std::string(out.written()),
          .framing = message_info.framing,
          .status = response.status};
}

template <bool is_request>
void compare_with_beast(const RewrittenHead& rewritten, bool bodiless) {
  beast::http::parser<is_request, beast::http::empty_body> parser;
  parser.header_limit(64 * 1024);
  parser.skip(true);
  beast::error_code error;
  std::string_view left = rewritten.head;
  while (!error && !left.empty() && !parser.is_header_done()) {
    const auto taken = parser.put(boost::asio::buffer(left), error);
    if (!error) left.remove_prefix(taken);
    if (taken == 0) break;
  }
  require(!error && parser.is_header_done() && left.empty(), "Beast reads the head that we write");
  const auto& theirs = parser.get();
  if constexpr (is_request) {
    require(theirs.method_string() == rewritten.method, "the same method");
    require(theirs.target() == rewritten.path, "the same target");
    require(theirs.count(beast::http::field::host) == 1, "one host");
  } else {
    require(static_cast<int>(theirs.result_int()) == rewritten.status, "the same status");
  }
  require(parser.chunked() == (rewritten.framing.kind == Framing::Kind::chunked), "chunked or not");
  const auto lengths = theirs.count(beast::http::field::content_length);
  const auto codings = theirs.count(beast::http::field::transfer_encoding);
  require(lengths + codings <= 1, "one framing field");
  require(codings == (rewritten.framing.kind == Framing::Kind::chunked ? 1u : 0u),
          "a coding where there is one");
  if (bodiless) return;  // a length is not framing here
  require(lengths == (rewritten.framing.kind == Framing::Kind::length ? 1u : 0u),
          "a length where there is one");
  if (lengths == 1) {
    require(
        theirs.at(beast::http::field::content_length) == std::to_string(rewritten.framing.length),
        "the same length");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  if (const RewrittenHead once = rewrite_request(bytes); !once.head.empty()) {
    // A request without a host (HTTP/1.0) is written with an empty one, which only we refuse.
    const bool nameless = once.head.find("\r\nhost: \r\n") != std::string::npos;
    compare_with_beast<true>(once, false);
    require(nameless || rewrite_request(once.head, relaxed_limits).head == once.head,
            "a request that we write passes unchanged");
  }
  for (const std::string_view method : methods) {
    const RewrittenHead once = rewrite_response(bytes, method);
    if (once.head.empty()) continue;
    const bool bodiless =
        method == "HEAD" || once.status < 200 || once.status == 204 || once.status == 304;
    compare_with_beast<false>(once, bodiless);
    if (once.status != 101) {
      require(rewrite_response(once.head, method, relaxed_limits).head == once.head,
              "a response that we write passes unchanged");
    }
  }
  return 0;
}
