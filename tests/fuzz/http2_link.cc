// An HTTP/2 backend connection. Properties: every exchange ends when the backend closes, and every
// response is valid: a status, fields with only valid characters, a body of the announced length.
//
// The first byte chooses the methods of the requests, and with its highest bit whether the second
// one is an upgrade; the rest is what the backend sends.
#include <cstdint>
#include <string>
#include <string_view>

#include "evenkeel/wire/link.h"
#include "require.h"
#include "scripted_connection.h"

namespace {

using namespace evenkeel;

constexpr std::size_t max_input_bytes = 8192;
constexpr std::string_view methods[] = {"GET", "HEAD", "POST"};
// The example of RFC 6455, section 1.3.
constexpr std::string_view key = "dGhlIHNhbXBsZSBub25jZQ==";
constexpr std::string_view accept = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=";

void check_fields(const Fields& fields) {
  for (const Field& field : fields) {
    for (const char c : field.value()) {
      require(static_cast<unsigned char>(c) >= 0x20 || c == '\t',
              "values have no control characters");
    }
    require(!field.name().empty() && field.name().front() != ':', "no pseudo-field among fields");
    require(field.id != FieldId::connection && field.id != FieldId::transfer_encoding,
            "framing is not passed on as fields");
  }
}

Task<void> exchange(Link& link, Request& request, int& ended) {
  auto response = co_await link.send(request);
  if (response) {
    const bool final_status = response->status >= 200 && response->status <= 999;
    const bool tunnel = response->status == 101 && !request.upgrade.empty();
    require(final_status || tunnel, "a final status");
    require(!tunnel || response->fields.value("sec-websocket-accept") == accept, "an accept");
    check_fields(response->fields);
    const auto announced = response->body->length();
    std::uint64_t size = 0;
    bool whole = false;
    while (!whole) {
      auto chunk = co_await response->body->read();
      if (!chunk) break;
      size += chunk->bytes.size();
      if (chunk->trailers != nullptr) check_fields(*chunk->trailers);
      whole = chunk->last;
    }
    require(!whole || !announced || *announced == size, "the body has the announced length");
  }
  ++ended;
}

Task<void> run_exchanges(std::unique_ptr<Socket> socket, Loop& loop, std::string_view method,
                         bool upgrades, int& ended) {
  auto opening = open_http2_link(std::move(socket), {}, loop.now() + std::chrono::seconds(4));
  auto opened = co_await opening;
  if (!opened) {
    ended = 2;
    co_return;
  }
  Link& link = **opened;
  Request first{.method = method, .authority = "a", .path = "/"};
  Request second{.method = method, .authority = "a", .path = "/", .body = make_body("hello")};
  if (upgrades) {
    second.method = "GET";
    second.upgrade = "websocket";
    second.fields.add("sec-websocket-key", key);
  }
  auto one = exchange(link, first, ended);
  auto other = exchange(link, second, ended);
  co_await one;
  co_await other;
}

void answer(std::string_view method, bool upgrades, std::string_view bytes, std::size_t pieces) {
  static Loop loop;
  ScriptedConnection conversation(loop);
  int ended = 0;
  loop.spawn(run_exchanges(conversation.take_socket(), loop, method, upgrades, ended));
  conversation.play(bytes, pieces);
  require(ended == 2, "both exchanges end");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0 || size > max_input_bytes) return 0;
  const std::string_view method = methods[data[0] % std::size(methods)];
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  const bool upgrades = (data[0] & 0x80) != 0;
  answer(method, upgrades, bytes, 1);
  answer(method, upgrades, bytes, 7);
  return 0;
}
