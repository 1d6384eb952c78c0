#include "http1_link.h"

#include "evenkeel/http/media_type.h"
#include "evenkeel/net/websocket_key.h"

namespace evenkeel {
namespace {

/// True if the backend may have lost its place in the stream of requests: its parser, not its API,
/// has refused the request. (llama.cpp answers a large header twice, and reads what follows as the
/// next request.) An API says in JSON what is wrong.
bool may_be_out_of_step(const Response& response) {
  if (response.status != 400 && response.status != 414 && response.status != 431) return false;
  const Field* type = response.fields.find(FieldId::content_type);
  return type == nullptr || !is_media_type(type->value(), "application/json");
}

/// Why a 101 is not the answer to the request; null: it is. A tunnel is beyond routes and limits,
/// so a client's own check of the answer does not do: the client may want the tunnel.
const char* problem_of_upgrade(const Request& request, const Response& response, bool upgrades) {
  if (request.upgrade.empty() || request.body == nullptr) return "unrequested protocol upgrade";
  const auto protocol = response.fields.value(FieldId::upgrade);
  const bool only_one = response.fields.count(FieldId::upgrade) == 1;
  if (!only_one || !equals_ignore_case(*protocol, request.upgrade)) {
    return "the backend switched to another protocol";
  }
  if (!upgrades) return "the backend's 101 has no connection: upgrade";
  const auto key = request.fields.value("sec-websocket-key");
  const auto accept = response.fields.value("sec-websocket-accept");
  const bool accepted = key && accept && *accept == websocket_accept(*key);
  return accepted ? nullptr : "the backend's sec-websocket-accept is wrong";
}

/// The backend has closed the connection, or written something that no request has asked for: some
/// end an idle connection with a 408, which is no answer to the request that crosses it.
Error ended_while_idle() {
  Error error = backend_error(Fault::backend_closed, "the backend ended the idle connection");
  error.idle_close_race = true;
  return error;
}

}  // namespace

// Long: one exchange in one coroutine, whose frame is all that it costs.
Task<Result<Response>> Http1Link::send(Request& request) {
  busy_ = true;
  exchange_.begin(request.info.timings);
  auto started = upload_.start(request);
  if (!started && upload_.sent_nothing()) {
    busy_ = false;  // the link stays usable
    co_return std::move(started.error());
  }
  if (!started && started.error().side == Side::client) co_return std::move(started.error());
  // A backend that closed during the upload may have answered before: continue reading.

  while (true) {
    HeadParser parser(HeadParser::Kind::response,
                      {options_.header_bytes, options_.header_fields, 0});
    auto head_result = co_await read_head(parser);
    if (!head_result) co_return mark_unusable(std::move(head_result.error()));

    Response response;
    Http1MessageInfo message_info;
    auto problem = accept_response(parser.head(), request.method, response, message_info);
    if (problem) co_return mark_unusable(backend_error(problem->fault, problem->detail));

    if (response.status == 101) {
      if (const char* wrong = problem_of_upgrade(request, response, message_info.upgrades)) {
        co_return mark_unusable(backend_error(Fault::backend_protocol, wrong));
      }
      reusable_ = false;
      message_info.framing.kind = Framing::Kind::until_close;
      upload_.start_tunnel(*request.body);
    } else if (response.status < 200) {
      if (!exchange_.may_be_interim()) {
        co_return mark_unusable(
            backend_error(Fault::backend_protocol, "too many interim responses"));
      }
      if (response.status != 100 && request.interim != nullptr) {
        request.interim->interim(response.status, response.fields);
      }
      continue;
    }

    if (response.status == 408 && !message_info.keep_alive && may_have_been_idle()) [[unlikely]]
      co_return mark_unusable(ended_while_idle());
    request.info.timings.first_byte = loop().now();
    body_begin_ = in_.begin;
    response_keep_alive_ = message_info.keep_alive && !may_be_out_of_step(response);
    response.body =
        read_response(message_info.framing, response.status == 101, request.response_budget);
    co_return response;
  }
}

Error Http1Link::closed(const HeadParser& parser, Socket::ReadStatus got) const {
  Error error = backend_error(Fault::backend_closed, got == Socket::ReadStatus::end
                                                         ? "the backend closed without a response"
                                                         : "the backend broke the connection");
  if (parser.started()) error.detail = "the backend closed the connection within the response head";
  if (exchange_.has_awaited_client()) {
    error.awaited_client = true;
    error.detail = "the backend closed the connection while it waited for the client's upload";
  }
  error.idle_close_race = !parser.started() && may_have_been_idle();
  return error;
}

Task<Result<Done>> Http1Link::read_head(HeadParser& parser) {
  if (!in_.block) in_.block = Block::take(Block::small);
  while (true) {
    if (!in_.empty()) {
      const auto step = parser.parse(in_);
      if (step == HeadParser::Step::done) co_return Done{};
      const bool full = in_.free_size() == 0;
      if (step == HeadParser::Step::failed || (full && !parser.grow_buffer(in_))) {
        co_return backend_error(Fault::backend_protocol, parser.detail());
      }
    } else {
      in_.begin = in_.end = 0;
    }
    if (!watch().readable()) {
      auto wake = co_await watch().until_readable(exchange_.head_deadline());
      if (wake == Wake::expired) co_return late_head();
      if (wake == Wake::interrupted) {
        if (auto failure = upload_.take_failure()) co_return std::move(*failure);
        continue;
      }
    }
    const auto got = socket_->read_some(in_.free_begin(), in_.free_size());
    if (got.status == Socket::ReadStatus::would_block) continue;
    if (got.status != Socket::ReadStatus::bytes) co_return closed(parser, got.status);
    in_.end += static_cast<std::uint32_t>(got.size);
  }
}

/// Ends an exchange and decides whether the connection is reused.
void Http1Link::finish(bool clean) {
  upload_.take_failure();
  if (!clean || !response_keep_alive_ || upload_.incomplete()) reusable_ = false;
  upload_.drop();
  if (reusable_) in_.release();
  served_ = true;
  busy_ = false;
}

std::unique_ptr<Link> make_http1_link(std::unique_ptr<Socket> socket, const LinkOptions& options) {
  return std::make_unique<Http1Link>(std::move(socket), options);
}

}  // namespace evenkeel
