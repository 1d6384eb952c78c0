// An HTTP/1 client connection. Properties: it ends when its client closes, the result does not
// depend on how the bytes are split, and a handler sees exactly the requests and bodies that
// Beast's parser reads.
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "beast.h"
#include "evenkeel/wire/frontend.h"
#include "require.h"
#include "scripted_connection.h"

namespace {

namespace beast = boost::beast;
using namespace evenkeel;

constexpr std::size_t max_input_bytes = 4096;

struct ReceivedRequest {
  std::string method;
  std::string path;
  std::string body;
  bool operator==(const ReceivedRequest&) const = default;
};

class RecordingHandler final : public Handler {
 public:
  Task<Result<Response>> handle(Request& request) override {
    ReceivedRequest now{.method = std::string(request.method), .path = std::string(request.path)};
    if (request.body == nullptr || !request.upgrade.empty()) {
      seen.push_back(std::move(now));
      co_return Response{.body = make_body("done")};
    }
    bool last = false;
    while (!last) {
      auto chunk = co_await request.body->read();
      if (!chunk) co_return std::move(chunk.error());
      now.body += chunk->bytes;
      last = chunk->last;
    }
    seen.push_back(std::move(now));
    co_return Response{.body = make_body("done")};
  }
  std::vector<ReceivedRequest> seen;
};

class FuzzCallbacks final : public FrontendCallbacks {
 public:
  std::shared_ptr<Handler> plan() override { return handler; }
  void refused(const Refusal&) override {}
  bool draining() const override { return false; }
  IdleList& idle_connections(ClientNumber) override { return idle; }
  void closed(const ListenerConfig&, ClientNumber) override {}

  std::shared_ptr<RecordingHandler> handler = std::make_shared<RecordingHandler>();
  IdleList idle;
};

/// What a handler and the client saw of one connection.
struct Outcome {
  std::string answers;
  std::vector<ReceivedRequest> seen;
  bool operator==(const Outcome&) const = default;
};

void erase_all(std::string& text, std::string_view what) {
  for (auto at = text.find(what); at != std::string::npos; at = text.find(what, at))
    text.erase(at, what.size());
}

/// A refusal carries an id that is made for each request.
void erase_request_ids(std::string& text) {
  constexpr std::string_view name = "x-request-id: ";
  for (auto at = text.find(name); at != std::string::npos; at = text.find(name, at)) {
    text.erase(at, text.find("\r\n", at) + 2 - at);
  }
}

Outcome serve(std::string_view bytes, std::size_t pieces) {
  static Loop loop;
  static const ListenerConfig options{.half_close = HalfClose::wait};
  FuzzCallbacks callbacks;
  ScriptedConnection conversation(loop);
  loop.spawn(serve_http1(conversation.take_socket(), Endpoint{}, options, callbacks));
  conversation.play(bytes, pieces);
  Outcome outcome{.answers = conversation.received(), .seen = std::move(callbacks.handler->seen)};
  // Sent only to clients whose body does not arrive with the head.
  erase_all(outcome.answers, "HTTP/1.1 100 Continue\r\n\r\n");
  erase_request_ids(outcome.answers);
  return outcome;
}

void compare_with_beast(const std::vector<ReceivedRequest>& ours, std::string_view bytes) {
  for (const ReceivedRequest& seen : ours) {
    if (bytes.starts_with("\r\n")) bytes.remove_prefix(2);
    beast::http::parser<true, beast::http::string_body> parser;
    parser.header_limit(64 * 1024);
    beast::error_code error;
    while (!error && !bytes.empty() && !parser.is_done()) {
      const auto taken = parser.put(boost::asio::buffer(bytes), error);
      if (error == beast::http::error::need_more && taken > 0) error = {};
      bytes.remove_prefix(taken);
    }
    // We drop framing fields in trailers, and check Connection elsewhere.
    if (is_framing_error(error) || error == beast::http::error::bad_value) return;
    require(!error && parser.is_done(), "Beast reads the requests that we let through");
    const auto& theirs = parser.get();
    require(theirs.method_string() == seen.method, "the same method");
    const std::string target(theirs.target());
    require(target == seen.path || (target.find("://") != std::string::npos &&
                                    (target.ends_with(seen.path) || seen.path == "/")),
            "the same path");
    require(theirs.body() == seen.body, "the same body");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size > max_input_bytes) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const Outcome whole = serve(bytes, 1);
  require(whole == serve(bytes, 3), "three pieces give the same result");
  require(whole == serve(bytes, 16), "sixteen pieces give the same result");
  compare_with_beast(whole.seen, bytes);
  return 0;
}
