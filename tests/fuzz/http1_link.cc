// An HTTP/1 backend connection. Properties: an exchange ends when its backend closes, the result
// does not depend on how the bytes are split, and a response is what Beast's parser reads.
//
// The first byte chooses the method; the rest is what the backend sends.
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <cstdint>
#include <optional>
#include <string>

#include "beast.h"
#include "evenkeel/wire/link.h"
#include "require.h"
#include "scripted_connection.h"

namespace {

namespace beast = boost::beast;
using namespace evenkeel;

constexpr std::size_t max_input_bytes = 4096;
constexpr std::string_view methods[] = {"GET", "HEAD", "POST"};

/// Result of one exchange.
struct Outcome {
  int status = 0;
  std::string body;
  std::size_t trailers = 0;
  std::optional<Fault> fault;
  bool operator==(const Outcome&) const = default;
};

Task<void> exchange(Link& link, Request& request, Outcome& outcome) {
  auto response = co_await link.send(request);
  if (!response) {
    outcome.fault = response.error().fault;
    co_return;
  }
  outcome.status = response->status;
  bool last = false;
  while (!last) {
    auto chunk = co_await response->body->read();
    if (!chunk) {
      outcome.fault = chunk.error().fault;
      co_return;
    }
    outcome.body += chunk->bytes;
    if (chunk->trailers != nullptr) outcome.trailers = chunk->trailers->size();
    last = chunk->last;
  }
}

Outcome answer(std::string_view method, std::string_view bytes, std::size_t pieces) {
  static Loop loop;
  ScriptedConnection conversation(loop);
  const auto link = make_http1_link(conversation.take_socket(), {});
  Request request{.method = method, .authority = "a", .path = "/"};
  Outcome outcome;
  loop.spawn(exchange(*link, request, outcome));
  conversation.play(bytes, pieces);
  if (outcome.fault) outcome.body.clear();  // how much arrived before depends on the split
  require(!outcome.fault || link->available_capacity() == 0,
          "a link that failed is not used again");
  return outcome;
}

void compare_with_beast(const Outcome& ours, std::string_view method, std::string_view bytes) {
  while (true) {
    // Beast accepts neither an empty line before a message nor a status line without a phrase.
    if (bytes.starts_with("\r\n")) bytes.remove_prefix(2);
    if (bytes.substr(12, 1) == "\r") return;
    beast::http::parser<false, beast::http::string_body> parser;
    parser.header_limit(64 * 1024);
    if (method == "HEAD") parser.skip(true);
    beast::error_code error;
    while (!error && !bytes.empty() && !parser.is_done()) {
      const auto taken = parser.put(boost::asio::buffer(bytes), error);
      if (error == beast::http::error::need_more && taken > 0) error = {};
      bytes.remove_prefix(taken);
    }
    if (!error && !parser.is_done()) parser.put_eof(error);
    if (is_framing_error(error) || error == beast::http::error::bad_value) return;
    require(!error && parser.is_done(), "Beast reads the responses that we let through");
    const auto status = static_cast<int>(parser.get().result_int());
    if (status < 200) continue;
    require(status == ours.status, "the same status");
    require(parser.get().body() == ours.body, "the same body");
    return;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0 || size > max_input_bytes) return 0;
  const std::string_view method = methods[data[0] % std::size(methods)];
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  const Outcome whole = answer(method, bytes, 1);
  require(whole == answer(method, bytes, 3), "three pieces give the same result");
  require(whole == answer(method, bytes, 16), "sixteen pieces give the same result");
  if (!whole.fault) compare_with_beast(whole, method, bytes);
  return 0;
}
