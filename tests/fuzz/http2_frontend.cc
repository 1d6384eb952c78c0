// An HTTP/2 client connection. Properties: it ends when its client closes, however the bytes are
// split, and every request that a handler sees means the same in HTTP/1: its parts have only valid
// characters, and its body has the announced length. An extended CONNECT is an upgrade with a key
// of ours; it gets a tunnel or, by its path, an answer that is none.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "evenkeel/wire/frontend.h"
#include "require.h"
#include "scripted_connection.h"

namespace {

using namespace evenkeel;

constexpr std::size_t max_input_bytes = 8192;
constexpr std::string_view preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

bool is_lower_token(std::string_view text) {
  for (const char c : text) {
    const bool good = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
                      std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos;
    if (!good) return false;
  }
  return !text.empty();
}

bool is_value(std::string_view text) {
  for (const char c : text) {
    if ((static_cast<unsigned char>(c) < 0x20 && c != '\t') || c == 0x7f) return false;
  }
  return text.empty() || (text.front() != ' ' && text.back() != ' ');
}

void check_fields(const Fields& fields) {
  for (const Field& field : fields) {
    require(is_lower_token(field.name()), "names are tokens in lower case");
    require(is_value(field.value()), "values have no control characters");
    require(field.id != FieldId::connection && field.id != FieldId::transfer_encoding &&
                field.id != FieldId::content_length && field.id != FieldId::host,
            "framing is not passed on as fields");
  }
}

void check_upgrade(const Request& request) {
  require(request.method == "GET" && request.upgrade == "websocket", "a request for a WebSocket");
  require(request.body != nullptr && !request.body->length(), "a tunnel");
  std::size_t keys = 0;
  for (const Field& field : request.fields) {
    if (field.name() != "sec-websocket-key") continue;
    require(field.value().size() == 24 && field.value().ends_with("=="), "a key of 16 bytes");
    ++keys;
  }
  require(keys == 1, "one key");
}

class CheckingHandler final : public Handler {
 public:
  Task<Result<Response>> handle(Request& request) override {
    require(request.path.starts_with('/') || request.path == "*", "a path");
    for (const char c : request.path) require(c > 0x20 && c < 0x7f && c != '#', "a plain path");
    for (const char c : request.method) require(c > 0x20 && c < 0x7f && c != ':', "a method");
    require(!request.authority.empty(), "an authority");
    for (const char c : request.authority) require(c > 0x20 && c < 0x7f && c != '@', "a host");
    check_fields(request.fields);
    require(request.method != "CONNECT" && request.method != "TRACE", "a method that we serve");
    require(request.upgrade.empty() == !request.is_extended_connect, "no other upgrade");
    if (!request.upgrade.empty()) check_upgrade(request);
    if (request.path.starts_with("/no-tunnel")) co_return Response{.body = make_body("done")};
    if (request.path.starts_with("/at-once") && !request.upgrade.empty()) {
      co_return Response{.status = 101, .body = make_body("tunnel")};
    }
    if (request.body == nullptr) co_return Response{.body = make_body("done")};
    const auto announced = request.body->length();
    std::uint64_t size = 0;
    for (bool last = false; !last;) {
      auto chunk = co_await request.body->read();
      if (!chunk) co_return std::move(chunk.error());
      require(!chunk->bytes.empty() || chunk->last, "only the last chunk is empty");
      size += chunk->bytes.size();
      if (chunk->trailers != nullptr) check_fields(*chunk->trailers);
      last = chunk->last;
    }
    require(!announced || *announced == size, "the body has the announced length");
    co_return Response{.status = request.upgrade.empty() ? 200 : 101, .body = make_body("done")};
  }
};

class FuzzCallbacks final : public FrontendCallbacks {
 public:
  std::shared_ptr<Handler> plan() override { return handler; }
  void refused(const Refusal&) override {}
  bool draining() const override { return false; }
  IdleList& idle_connections(ClientNumber) override { return idle; }
  void closed(const ListenerConfig&, ClientNumber) override { ++ended; }

  std::shared_ptr<CheckingHandler> handler = std::make_shared<CheckingHandler>();
  IdleList idle;
  int ended = 0;
};

void serve(const std::string& bytes, std::size_t pieces) {
  static Loop loop;
  static const ListenerConfig options{.limits = {.max_streams = 16}};
  FuzzCallbacks callbacks;
  ScriptedConnection conversation(loop);
  loop.spawn(serve_http(conversation.take_socket(), Endpoint{}, options, callbacks));
  conversation.play(bytes, pieces);
  require(callbacks.ended == 1, "the end is reported");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size > max_input_bytes) return 0;
  const std::string bytes =
      std::string(preface) + std::string(reinterpret_cast<const char*>(data), size);
  serve(bytes, 1);
  serve(bytes, 7);
  return 0;
}
