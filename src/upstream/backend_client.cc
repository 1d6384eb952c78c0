#include "evenkeel/upstream/backend_client.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "evenkeel/base/deadline.h"
#include "evenkeel/base/host.h"
#include "evenkeel/base/path.h"
#include "evenkeel/inference/grpc_message.h"
#include "evenkeel/upstream/redirect.h"

namespace evenkeel {
namespace {

Error protocol_error(const char* what) {
  return {.fault = Fault::backend_protocol, .side = Side::backend, .detail = what};
}

/// `name` and `value` outlive the request.
void set_field(Request& request, const std::string& name, const std::string& value) {
  const FieldId id = field_id(name);
  if (id == FieldId::host) {
    request.authority = value;
  } else {
    request.fields.add(name, value, id);
  }
}

/// Reads a body that nothing needs, so that its link can be kept. A long one closes its link.
Task<void> discard(Body* body) {
  constexpr std::size_t max_bytes = 64 * 1024;
  std::size_t size = 0;
  for (bool last = body == nullptr; !last;) {
    auto chunk = co_await body->read();
    if (!chunk) co_return;
    size += chunk->bytes.size();
    last = chunk->last || size > max_bytes;
  }
}

LinkPoolOptions link_options_for(const ServerAccess& access) {
  LinkPoolOptions links = access.links;
  if (!access.keeps_links) links.keep_alive.max_idle = 0;
  return links;
}

}  // namespace

Request ServerAccess::request(std::string_view method, std::string_view path) const {
  Request request{.method = method,
                  .scheme = uses_tls() ? "https" : "http",
                  .authority = authority,
                  .path = path};
  request.fields.add("user-agent", "evenkeel", FieldId::user_agent);
  if (!key.empty()) request.fields.add(key.field, key.value);
  return request;
}

void ServerAccess::set_port(std::uint16_t port) {
  for (Endpoint& address : addresses) address.set_port(port);
  if (authority_is_text) return;
  authority = authority_of(normal_host(host_of(authority)), port, uses_tls());
}

/// What has come in of a response so far. Outlives the task that fills it.
struct BackendClient::Exchange {
  std::size_t max_bytes = 0;
  bool connected = false;
  Fetched fetched;
  std::string grpc_status;  // from the head or from the trailers
  std::string grpc_message;

  void note_status(const Fields& fields) {
    if (const auto status = fields.value("grpc-status")) grpc_status = *status;
    if (const auto text = fields.value("grpc-message")) grpc_message = percent_decoded(*text);
  }
};

BackendClient::BackendClient(Loop& loop, ServerAccess access)
    : loop_(loop),
      access_(std::move(access)),
      links_(loop_, access_.addresses, link_options_for(access_), metrics_),
      connector_(loop_, access_.addresses, access_.links.connector) {}

Task<Result<OpenResponse>> BackendClient::open(Request& request, LinkPool::LinkChoice link_choice,
                                               const std::function<void()>& on_send) {
  constexpr int max_redirects = 3;
  for (int followed = 0;; ++followed) {
    auto opened = co_await send(request, link_choice, on_send);
    if (!opened || followed == max_redirects) co_return opened;
    const std::string target = redirected_target(request, opened->response);
    if (target.empty()) co_return opened;
    request.path = request.fields.keep(target);
    link_choice = LinkPool::LinkChoice::any;
    const BodyPtr body = std::move(opened->response.body);
    co_await discard(body.get());
  }
}

Task<Result<OpenResponse>> BackendClient::send(Request& request, LinkPool::LinkChoice link_choice,
                                               const std::function<void()>& on_send) {
  for (bool resent = false;; resent = true) {
    const bool dials = links_.idle() == 0 || link_choice == LinkPool::LinkChoice::fresh;
    const Instant began = loop_.read_clock();
    auto link = co_await links_.acquire(link_choice);
    if (!link) co_return std::move(link.error());
    OpenResponse opened{.link = std::move(*link), .sent_at = loop_.read_clock()};
    if (dials) opened.connect_time = opened.sent_at - began;
    if (on_send) on_send();
    auto response = co_await opened.link->send(request);
    if (response) {
      opened.response = std::move(*response);
      co_return std::move(opened);
    }
    if (resent || !may_resend(response.error(), request)) co_return std::move(response.error());
    link_choice = LinkPool::LinkChoice::fresh;
  }
}

Task<Result<Done>> BackendClient::exchange(Request& request, LinkPool::LinkChoice link_choice,
                                           Exchange& received) {
  const std::function<void()> on_send = [&received] { received.connected = true; };
  auto opened = co_await open(request, link_choice, on_send);
  if (!opened) co_return std::move(opened.error());

  const Response& response = opened->response;
  Fetched& fetched = received.fetched;
  fetched.status = response.status;
  fetched.server = response.fields.value(FieldId::server).value_or("");
  fetched.location = response.fields.value("location").value_or("");
  received.note_status(response.fields);
  const BodyPtr body = std::move(opened->response.body);
  for (bool last = body == nullptr; !last;) {
    auto chunk = co_await body->read();
    if (!chunk) co_return std::move(chunk.error());
    const std::size_t room = received.max_bytes - fetched.body.size();
    fetched.body += chunk->bytes.substr(0, room);
    fetched.complete = chunk->bytes.size() <= room;
    if (chunk->trailers != nullptr) received.note_status(*chunk->trailers);
    last = chunk->last || !fetched.complete;
  }
  co_return Done{};
}

Task<Result<Done>> BackendClient::exchange_until(Request& request, LinkPool::LinkChoice link_choice,
                                                 Exchange& received, Instant deadline) {
  auto pending = exchange(request, link_choice, received);
  co_await UntilDoneOrDeadline(pending, loop_, deadline);
  if (pending.ready()) co_return pending.take();
  co_return Error{
      .fault = received.connected ? Fault::first_byte_timeout : Fault::connect_timeout,
      .side = Side::backend,
      .detail = received.connected ? "no response in time" : "the connection took too long"};
}

Task<Result<Fetched>> BackendClient::fetch(BackendClientRequest client_request, Instant deadline) {
  Request request = access_.request(client_request.method, client_request.path);
  request.fields.add("accept", "*/*", FieldId::accept);
  for (const auto& field : client_request.fields) request.fields.remove(field.first);
  for (const auto& [name, value] : client_request.fields) set_field(request, name, value);
  if (!client_request.json.empty()) {
    request.fields.add("content-type", "application/json");
    request.body = make_body(std::move(client_request.json));
  }
  Exchange received{.max_bytes = client_request.max_bytes};
  auto done = co_await exchange_until(request, client_request.link_choice, received, deadline);
  if (!done) co_return std::move(done.error());
  if (!received.grpc_status.empty()) co_return protocol_error("the server speaks gRPC");
  co_return std::move(received.fetched);
}

Task<Result<GrpcReply>> BackendClient::call(GrpcCall call, Instant deadline) {
  constexpr std::size_t max_bytes = 64 * 1024;  // of a message that we request
  Request request = access_.request("POST", call.path);
  request.wants_trailers = true;
  request.fields.add("content-type", "application/grpc");
  GrpcTimeoutText timeout;
  request.fields.add("grpc-timeout", request.fields.keep(write_grpc_timeout(
                                         std::max(deadline - loop_.now(), Duration(1)), timeout)));
  std::string framed;
  append_grpc_frame(framed, call.message);
  request.body = make_body(std::move(framed));

  Exchange received{.max_bytes = max_bytes};
  auto done = co_await exchange_until(request, call.link_choice, received, deadline);
  if (!done) co_return std::move(done.error());
  GrpcReply reply;
  if (received.grpc_status.empty()) {
    if (received.fetched.status == 200) co_return protocol_error("a response without grpc-status");
    reply.grpc = false;
    reply.status = grpc_status_of_http(received.fetched.status);
    reply.text = "HTTP status " + std::to_string(received.fetched.status);
    co_return reply;
  }
  reply.status = parse_grpc_status(received.grpc_status).value_or(GrpcStatus::unknown);
  reply.text = std::move(received.grpc_message);
  if (reply.status != GrpcStatus::ok) co_return reply;
  GrpcMessageReader reader(max_bytes);
  std::string_view bytes = received.fetched.body;
  const auto step = reader.read(bytes);
  if (step != GrpcMessageReader::Step::message || reader.compressed()) {
    co_return protocol_error("a response without message");
  }
  reply.message = reader.message();
  co_return reply;
}

Task<Result<Done>> BackendClient::connect(Instant deadline) {
  auto connecting = connector_.connect();
  co_await UntilDoneOrDeadline(connecting, loop_, deadline);
  if (!connecting.ready()) {
    co_return Error{.fault = Fault::connect_timeout,
                    .side = Side::backend,
                    .detail = "the connection took too long"};
  }
  auto socket = connecting.take();
  if (!socket) co_return std::move(socket.error());
  co_return Done{};
}

Result<Fetched> fetch_blocking(FetchRequest request, Duration timeout) {
  Loop loop;
  ServerAccess access{.addresses = std::move(request.addresses),
                      .authority = std::move(request.authority)};
  access.links.connector.connect_timeout = timeout;
  BackendClient client(loop, std::move(access));
  auto fetched = client.fetch({.path = std::move(request.path),
                               .max_bytes = request.max_bytes,
                               .fields = std::move(request.fields)},
                              loop.read_clock() + timeout);
  loop.run_until([&] { return fetched.ready(); });
  return fetched.take();
}

}  // namespace evenkeel
